/* What is set up before all else: threads of libraries may outlive main, so nothing they use is taken down at exit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/crypto.h>

#include "common/daemon.h"
#include "common/digest.h"

static int told[2];

static void taken_down(void)
{
	(void)!write(told[1], "x", 1);
}

/* As an agent: OpenSSL sets itself up when it is first used. */
static void child(void)
{
	digest d;

	daemon_init();
	digest_of("", 0, &d);
	exit(OPENSSL_atexit(taken_down) == 1 ? 0 : 1);
}

static void test_openssl_stays_up_at_exit(void **state)
{
	int status = -1;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(told), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child();
	close(told[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(told[0], &c, 1), 0);
	close(told[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_openssl_stays_up_at_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
