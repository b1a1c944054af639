/* A lock that one process at a time has; of one that died while it started a child, the child has it for a moment. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/lock_file.h"
#include "common/mem.h"

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

static int holder = -1; /* the child ends when this does */
static int pauses;

/* Instead of a pause: the child runs its program, and has the file no more. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	char end;
	(void)time;
	(void)left;
	pauses++;
	if (holder >= 0)
		(void)!read(holder, &end, 1);
	return 0;
}

static void one_at_a_time(void **state)
{
	char *folder = unit_folder(), *path = mem_printf("%s/lock", folder),
		 *expected = mem_printf("the store is in use by another agent (process %d)", (int)getpid());
	int fd, other;
	error err = {0};
	(void)state;
	assert_int_equal(lock_file_take(path, "the store", &fd, &err), 0);
	pauses = 0;
	assert_int_equal(lock_file_take(path, "the store", &other, &err), ERROR_EXISTS);
	assert_string_equal(err.text, expected);
	assert_int_equal(other, -1);
	assert_int_equal(pauses, 0);
	close(fd);
	assert_int_equal(lock_file_take(path, "the store", &fd, &err), 0);
	close(fd);
	assert_int_equal(lock_file_take("/nowhere/lock", "the store", &fd, &err), ERROR_NOT_FOUND);
	unit_folder_remove(folder);
	free(expected);
	free(path);
}

/* A process that takes the lock and dies; its child has the file, and lives until told[1] is closed everywhere, then says so by the end of says. */
static void begin(const char *path, int told[2], int says[2])
{
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(says), 0);
	pid_t parent = fork();
	if (parent == 0) {
		int fd;
		char end;
		if (lock_file_take(path, "the store", &fd, NULL) != 0)
			_exit(1);
		if (fork() == 0) {
			close(told[1]);
			(void)!read(told[0], &end, 1);
		}
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(status, 0);
	close(told[0]);
	close(says[1]);
}

static void a_child_of_the_dead(void **state)
{
	char *folder = unit_folder(), *path = mem_printf("%s/lock", folder);
	int told[2], says[2], fd;
	(void)state;
	begin(path, told, says);
	close(told[1]);
	holder = says[0];
	assert_int_equal(lock_file_take(path, "the store", &fd, NULL), 0);
	holder = -1;
	close(says[0]);
	close(fd);
	/* One that stays is not waited for without end. */
	begin(path, told, says);
	pauses = 0;
	assert_int_equal(lock_file_take(path, "the store", &fd, NULL), ERROR_EXISTS);
	assert_true(pauses > 10);
	close(told[1]);
	close(says[0]);
	unit_folder_remove(folder);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_at_a_time), cmocka_unit_test(a_child_of_the_dead)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
