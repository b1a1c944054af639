/* One worker as the agent sees it: see worker.h for the contract.
 *
 * Order of a start: folder and spec, FIFOs, lock taken, supervisor started with the locked file. If the agent dies before the last step the
 * lock is free again and there is no status, so the next agent starts the worker; if it dies after it, the lock is held.
 */
#include "cloud-agent/cluster/local/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/manifests.h"
#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

struct worker {
	worker_events events;
	uv_poll_t wake;
	int wake_fd;
	bool has_wake, gone, freed;
	int open; /* handles whose close callback is to come */
};

static char *inside(const char *folder, const char *name)
{
	return mem_printf("%s/%s", folder, name);
}

static int open_inside(const char *folder, const char *name, int flags)
{
	char *path = inside(folder, name);
	int fd = open(path, flags | O_CLOEXEC, 0600);
	free(path);
	return fd;
}

/* ---- looking ---- */

int worker_alive(const char *folder, bool *alive, error *err)
{
	*alive = false;
	int fd = open_inside(folder, WORKER_LOCK, O_RDWR);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "cannot open the lock of %s", folder);
	int code = 0;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		*alive = errno == EWOULDBLOCK;
		code = *alive ? 0 : error_errno(err, errno, "cannot try the lock of %s", folder);
	}
	close(fd);
	return code;
}

static int read_json(const char *folder, const char *name, size_t max, cJSON **out, error *err)
{
	char *path = inside(folder, name);
	buf text = {0};
	error why = {0};
	*out = NULL;
	int code = file_read(path, max, &text, err);
	if (code == 0 && json_parse(buf_text(&text), text.len, max, out, &why) != 0) {
		log_error("local", "what was written about a worker makes no sense", L_STR("file", path), L_STR("error", why.text));
		*out = cJSON_CreateObject();
	}
	buf_wipe(&text);
	free(path);
	return code == ERROR_NOT_FOUND ? 0 : code;
}

int worker_status(const char *folder, cJSON **out, error *err)
{
	return read_json(folder, WORKER_STATUS, WORKER_STATUS_MAX, out, err);
}

int worker_spec(const char *folder, cJSON **out, error *err)
{
	return read_json(folder, WORKER_SPEC, WORKER_SPEC_MAX, out, err);
}

int worker_end(const char *folder, error *err)
{
	int fd = open_inside(folder, WORKER_CONTROL, O_WRONLY | O_NONBLOCK);
	/* ENXIO: nobody reads, it has ended. */
	if (fd < 0)
		return errno == ENXIO || errno == ENOENT ? 0 : error_errno(err, errno, "cannot tell the worker in %s to end", folder);
	char command = CONTROL_END;
	int code = 0;
	/* EAGAIN: it was told more often than a pipe holds. */
	if (write(fd, &command, 1) < 0 && errno != EPIPE && errno != EAGAIN)
		code = error_errno(err, errno, "cannot tell the worker in %s to end", folder);
	close(fd);
	return code;
}

/* ---- watching ---- */

static void maybe_closed(worker *w)
{
	if (!w->freed || w->open > 0)
		return;
	worker_events events = w->events;
	free(w);
	events.closed(events.owner);
}

static void on_closed(uv_handle_t *handle)
{
	worker *w = handle->data;
	w->open--;
	maybe_closed(w);
}

static void wake_close(worker *w)
{
	if (!w->has_wake)
		return;
	w->has_wake = false;
	uv_poll_stop(&w->wake);
	close(w->wake_fd);
	w->open++;
	uv_close((uv_handle_t *)&w->wake, on_closed);
}

static void on_wake(uv_poll_t *poll, int status, int events)
{
	worker *w = poll->data;
	char bytes[256];
	(void)events;
	ssize_t n = -1;
	bool any = false;
	while (status == 0 && (n = read(w->wake_fd, bytes, sizeof bytes)) > 0)
		any = true;
	if (status != 0 || n == 0) {
		wake_close(w);
		w->gone = true;
		w->events.gone(w->events.ctx);
	} else if (any) {
		w->events.changed(w->events.ctx);
	}
}

static int wake_open(worker *w, uv_loop_t *loop, int fd, error *err)
{
	w->wake_fd = fd;
	int code = uv_poll_init(loop, &w->wake, fd);
	if (code == 0) {
		w->wake.data = w;
		w->has_wake = true;
		code = uv_poll_start(&w->wake, UV_READABLE, on_wake);
		if (code != 0)
			wake_close(w);
	} else {
		close(fd);
	}
	return code == 0 ? 0 : error_set(err, ERROR_IO, "cannot watch a worker: %s", uv_strerror(code));
}

void worker_free(worker *w)
{
	if (w == NULL)
		return;
	w->freed = true;
	wake_close(w);
	maybe_closed(w);
}

int worker_adopt(uv_loop_t *loop, const char *folder, const worker_events *events, worker **out, error *err)
{
	*out = NULL;
	bool alive = false;
	int fd = open_inside(folder, WORKER_WAKE, O_RDONLY | O_NONBLOCK);
	if (fd < 0 && errno != ENOENT)
		return error_errno(err, errno, "cannot watch the worker in %s", folder);
	/* In this order: the lock is let go before the FIFO, so one whose lock is held is still a writer, and its end will be seen. */
	int code = fd >= 0 ? worker_alive(folder, &alive, err) : 0;
	if (code != 0 || !alive) {
		if (fd >= 0)
			close(fd);
		return code != 0 ? code : error_set(err, ERROR_NOT_FOUND, "the worker in %s has ended", folder);
	}
	worker *w = mem_alloc(sizeof *w);
	w->events = *events;
	*out = w;
	return wake_open(w, loop, fd, err);
}

/* ---- starting ---- */

static int write_spec(const char *folder, const cJSON *spec, error *err)
{
	char *path = inside(folder, WORKER_SPEC), *text = json_print(spec);
	int code = text != NULL ? file_write(path, text, strlen(text), 0600, err) : error_set(err, ERROR_LIMIT, "the pod is nested too deep");
	if (text != NULL) {
		explicit_bzero(text, strlen(text));
		free(text);
	}
	free(path);
	return code;
}

static int make_fifo(const char *folder, const char *name, error *err)
{
	char *path = inside(folder, name);
	int code = mkfifo(path, 0600) == 0 || errno == EEXIST ? 0 : error_errno(err, errno, "cannot make %s", path);
	free(path);
	return code;
}

/* posix_spawn, unlike fork, copies no page tables: the agent goes on at once. How the supervisor ends shows in its folder. */
static int spawn(const char *supervisor, const char *folder, const int fds[WORKER_FDS], error *err)
{
	char *args[] = {(char[]){"ilmare-worker"}, mem_strdup(folder), NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGCHLD);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
	for (int i = WORKER_FD_LOCK; i < WORKER_FDS; i++)
		posix_spawn_file_actions_adddup2(&files, fds[i], i);
	int code = posix_spawn(&(pid_t){0}, supervisor, &files, &attributes, args, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	free(args[1]);
	return code == 0 ? 0 : error_set(err, ERROR_IO, "cannot run %s: %s", supervisor, strerror(code));
}

/* Never one of the numbers that they get in the supervisor: there one would take another's place. */
static int open_above(const char *folder, const char *name, int flags)
{
	int fd = open_inside(folder, name, flags);
	if (fd < 0 || fd >= WORKER_FDS)
		return fd;
	int above = fcntl(fd, F_DUPFD_CLOEXEC, WORKER_FDS);
	close(fd);
	return above;
}

/* The files that go to the supervisor, and our end of the FIFO. Its standard error output is ours until it has detached. */
static int open_files(const char *folder, int fds[WORKER_FDS], int *wake, error *err)
{
	fds[WORKER_FD_LOCK] = open_above(folder, WORKER_LOCK, O_RDWR | O_CREAT);
	fds[WORKER_FD_WAKE] = open_above(folder, WORKER_WAKE, O_RDWR | O_NONBLOCK);
	fds[WORKER_FD_CONTROL] = open_above(folder, WORKER_CONTROL, O_RDWR | O_NONBLOCK);
	*wake = open_inside(folder, WORKER_WAKE, O_RDONLY | O_NONBLOCK);
	if (fds[WORKER_FD_LOCK] < 0 || fds[WORKER_FD_WAKE] < 0 || fds[WORKER_FD_CONTROL] < 0 || *wake < 0)
		return error_errno(err, errno, "cannot open the files of %s", folder);
	if (flock(fds[WORKER_FD_LOCK], LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? error_set(err, ERROR_EXISTS, "the worker in %s runs already", folder) :
									  error_errno(err, errno, "cannot lock %s", folder);
	return 0;
}

int worker_start(uv_loop_t *loop, const char *supervisor, const char *folder, const cJSON *spec, const worker_events *events, worker **out,
	error *err)
{
	int fds[WORKER_FDS] = {-1, -1, -1, -1, -1, -1}, wake = -1;
	*out = NULL;
	int code = file_make_dirs(folder, 0700, err);
	if (code == 0)
		code = write_spec(folder, spec, err);
	if (code == 0)
		code = make_fifo(folder, WORKER_WAKE, err);
	if (code == 0)
		code = make_fifo(folder, WORKER_CONTROL, err);
	if (code == 0)
		code = open_files(folder, fds, &wake, err);
	if (code == 0) {
		worker *w = mem_alloc(sizeof *w);
		w->events = *events;
		*out = w;
		code = wake_open(w, loop, wake, err);
		if (code == 0)
			code = spawn(supervisor, folder, fds, err);
	} else if (wake >= 0) {
		close(wake);
	}
	for (int i = WORKER_FD_LOCK; i < WORKER_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return code;
}
