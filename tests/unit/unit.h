/* What the unit tests share: cmocka with the headers that it wants before it, folders that go away, and what a process prints. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/file.h"
#include "common/mem.h"

/* A new folder; to be given to unit_folder_remove. */
static inline char *unit_folder(void)
{
	const char *base = getenv("TMPDIR");
	char *path = mem_printf("%s/ilmare-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
	if (mkdtemp(path) == NULL)
		fail_msg("cannot make %s", path);
	return path;
}

static inline void unit_folder_remove(char *path)
{
	error err = {0};
	if (file_remove_tree(path, &err) != 0)
		fail_msg("%s", err.text);
	free(path);
}

/* Forget the first n bytes, or all. */
static inline void unit_drop(buf *b, size_t n)
{
	size_t gone = n < b->len ? n : b->len;
	if (gone == 0)
		return;
	memmove(b->data, b->data + gone, b->len - gone + 1); /* with the NUL behind it */
	b->len -= gone;
}

/* Run f(arg) in a process of its own and collect what it writes to the descriptor (1 or 2); the other one leads nowhere. Returns the exit status, or 128 + signal. */
static inline int unit_run(int descriptor, void (*f)(void *), void *arg, buf *out)
{
	int ends[2];
	if (pipe(ends) != 0)
		fail_msg("no pipe");
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		int nowhere = open("/dev/null", O_WRONLY);
		dup2(nowhere, 3 - descriptor);
		dup2(ends[1], descriptor);
		close(ends[0]);
		close(ends[1]);
		f(arg);
		fflush(NULL);
		exit(0); /* not _exit: the leak checker looks at this process too */
	}
	close(ends[1]);
	char part[4096];
	for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
		buf_add(out, part, (size_t)n);
	close(ends[0]);
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
