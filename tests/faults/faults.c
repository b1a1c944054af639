/* A library to be preloaded (LD_PRELOAD) into a real agent, in which a test then makes the n-th call of a kind fail.
 *
 * The test and the process share a file (FAULTS_CONTROL) with the block below: the test arms it at any time, sees how many calls were made and
 * failed, and disarms it. Only the program that FAULTS_PROGRAM names is concerned, not what it starts. Calls on files count if the file is
 * below `prefix`, so that sockets, pipes and libraries are left alone; standard output and error are, too, as what the agent says is part of
 * the test. For memory there is no prefix: every piece that is asked for counts, whoever asks.
 *
 * Nothing here asks for memory, and everything is by atomic operations: the calls come from any thread.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, RENAME = 16, MKDIR = 32, UNLINK = 64, TRUNCATE = 128, MEMORY = 256 };

/* tests/integration/faults.py has the same. */
typedef struct control {
	uint32_t armed; /* a set of the kinds above; 0: nothing is counted */
	int32_t errnum;
	int32_t before; /* so many more calls go well */
	int32_t times;  /* so many fail then */
	uint32_t seen, failed;
	char prefix[232];
	char who[256]; /* the last call that failed: where it came from */
} control;

static control *shared;

__attribute__((constructor)) static void begin(void)
{
	char program[256];
	const char *wanted = getenv("FAULTS_PROGRAM"), *path = getenv("FAULTS_CONTROL");
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	if (wanted == NULL || path == NULL || n <= 0)
		return;
	program[n] = '\0';
	const char *name = strrchr(program, '/');
	if (name == NULL || strcmp(name + 1, wanted) != 0)
		return;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	void *block = fd >= 0 ? mmap(NULL, sizeof(control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (fd >= 0)
		syscall(SYS_close, fd);
	if (block == MAP_FAILED)
		abort(); /* a test that injects nothing would be green */
	__atomic_store_n(&shared, block, __ATOMIC_RELEASE);
}

/* The block if calls of this kind are counted now. */
static control *counts(uint32_t kind)
{
	control *c = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
	return c != NULL && (__atomic_load_n(&c->armed, __ATOMIC_ACQUIRE) & kind) != 0 ? c : NULL;
}

static bool fails(control *c, const void *caller)
{
	__atomic_add_fetch(&c->seen, 1, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&c->before, 1, __ATOMIC_RELAXED) >= 0 || __atomic_sub_fetch(&c->times, 1, __ATOMIC_RELAXED) < 0)
		return false;
	Dl_info info;
	if (dladdr(caller, &info) != 0 && info.dli_fname != NULL)
		snprintf(c->who, sizeof c->who, "%.120s %.100s", info.dli_fname, info.dli_sname != NULL ? info.dli_sname : "");
	__atomic_add_fetch(&c->failed, 1, __ATOMIC_RELEASE);
	errno = c->errnum;
	return true;
}

static bool below(const control *c, const char *path)
{
	return strncmp(path, c->prefix, strlen(c->prefix)) == 0;
}

static bool file_below(const control *c, int fd)
{
	char name[48], path[512];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = fd > STDERR_FILENO ? readlink(name, path, sizeof path - 1) : -1;
	path[n > 0 ? n : 0] = '\0';
	return below(c, path);
}

/* Of a call on a path, which may be relative to a folder's descriptor. */
static bool path_fails(uint32_t kind, int folder, const char *path, const void *caller)
{
	int before = errno;
	control *c = counts(kind);
	bool is = c != NULL && (path[0] == '/' ? below(c, path) : folder != AT_FDCWD && file_below(c, folder));
	errno = before;
	return is && fails(c, caller);
}

static bool file_fails(uint32_t kind, int fd, const void *caller)
{
	int before = errno;
	control *c = counts(kind);
	bool is = c != NULL && file_below(c, fd);
	errno = before;
	return is && fails(c, caller);
}

#define CALLER __builtin_return_address(0)

/* The next one that has the name: libc's, or a sanitizer's. */
#define REAL(name)                                                                                                                         \
	static __typeof__(&name) real;                                                                                                         \
	if (real == NULL)                                                                                                                      \
	real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define EXPORT __attribute__((visibility("default")))

#define ON_PATH(type, failure, name, kind, folder, path, parameters, arguments)                                                            \
	EXPORT type name parameters                                                                                                            \
	{                                                                                                                                      \
		REAL(name);                                                                                                                        \
		return path_fails(kind, folder, path, CALLER) ? failure : real arguments;                                                          \
	}

#define ON_FILE(type, name, kind, parameters, arguments)                                                                                   \
	EXPORT type name parameters                                                                                                            \
	{                                                                                                                                      \
		REAL(name);                                                                                                                        \
		return file_fails(kind, fd, CALLER) ? (type)-1 : real arguments;                                                                   \
	}

/* ---- files ---- */

#define ON_OPEN(name)                                                                                                                      \
	EXPORT int name(const char *path, int flags, ...)                                                                                      \
	{                                                                                                                                      \
		REAL(name);                                                                                                                        \
		va_list args;                                                                                                                      \
		va_start(args, flags);                                                                                                             \
		mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;                                                     \
		va_end(args);                                                                                                                      \
		return path_fails(OPEN, AT_FDCWD, path, CALLER) ? -1 : real(path, flags, mode);                                                    \
	}
ON_OPEN(open)
ON_OPEN(open64)

#define ON_OPENAT(name)                                                                                                                    \
	EXPORT int name(int folder, const char *path, int flags, ...)                                                                          \
	{                                                                                                                                      \
		REAL(name);                                                                                                                        \
		va_list args;                                                                                                                      \
		va_start(args, flags);                                                                                                             \
		mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;                                                     \
		va_end(args);                                                                                                                      \
		return path_fails(OPEN, folder, path, CALLER) ? -1 : real(folder, path, flags, mode);                                              \
	}
ON_OPENAT(openat)
ON_OPENAT(openat64)

ON_PATH(DIR *, NULL, opendir, OPEN, AT_FDCWD, path, (const char *path), (path))
ON_PATH(int, -1, mkostemp, OPEN, AT_FDCWD, path, (char *path, int flags), (path, flags))
ON_PATH(char *, NULL, mkdtemp, MKDIR, AT_FDCWD, path, (char *path), (path))
ON_PATH(int, -1, mkdir, MKDIR, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, -1, mkdirat, MKDIR, folder, path, (int folder, const char *path, mode_t mode), (folder, path, mode))
ON_PATH(int, -1, mkfifo, MKDIR, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, -1, unlink, UNLINK, AT_FDCWD, path, (const char *path), (path))
ON_PATH(int, -1, unlinkat, UNLINK, folder, path, (int folder, const char *path, int flags), (folder, path, flags))
ON_PATH(int, -1, rmdir, UNLINK, AT_FDCWD, path, (const char *path), (path))
ON_PATH(int, -1, rename, RENAME, AT_FDCWD, path, (const char *path, const char *to), (path, to))
ON_PATH(int, -1, renameat, RENAME, folder, path, (int folder, const char *path, int other, const char *to), (folder, path, other, to))
ON_PATH(int, -1, renameat2, RENAME, folder, path, (int folder, const char *path, int other, const char *to, unsigned flags),
	(folder, path, other, to, flags))

ON_FILE(int, fsync, SYNC, (int fd), (fd))
ON_FILE(int, fdatasync, SYNC, (int fd), (fd))
ON_FILE(int, ftruncate, TRUNCATE, (int fd, off_t size), (fd, size))
ON_FILE(int, ftruncate64, TRUNCATE, (int fd, off64_t size), (fd, size))
ON_FILE(ssize_t, read, READ, (int fd, void *data, size_t size), (fd, data, size))
ON_FILE(ssize_t, pread, READ, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pread64, READ, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FILE(ssize_t, write, WRITE, (int fd, const void *data, size_t size), (fd, data, size))
ON_FILE(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))

/* ---- memory ---- */

#ifndef FAULTS_WITHOUT_MEMORY
/* The agents ask the C library by these names (common/mem_guard.c), for themselves and for all libraries. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
/* Under this one it can still be had. */
extern void *__libc_memalign(size_t align, size_t size);

enum { ALIGN = 16 };

static bool memory_fails(const void *caller)
{
	int before = errno;
	control *c = counts(MEMORY);
	bool is = c != NULL && fails(c, caller);
	errno = is ? ENOMEM : before;
	return is;
}

EXPORT void *__libc_malloc(size_t size)
{
	return memory_fails(CALLER) ? NULL : __libc_memalign(ALIGN, size);
}

EXPORT void *__libc_calloc(size_t n, size_t size)
{
	size_t whole;
	if (__builtin_mul_overflow(n, size, &whole) || memory_fails(CALLER))
		return NULL;
	void *p = __libc_memalign(ALIGN, whole);
	return p != NULL ? memset(p, 0, whole) : NULL;
}

EXPORT void *__libc_realloc(void *old, size_t size)
{
	if (memory_fails(CALLER))
		return NULL;
	void *p = __libc_memalign(ALIGN, size > 0 ? size : 1);
	size_t had = old != NULL ? malloc_usable_size(old) : 0;
	if (p != NULL && had > 0)
		memcpy(p, old, had < size ? had : size);
	if (p != NULL)
		free(old);
	return p;
}
#endif
