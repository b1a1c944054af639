/* See transfer.h. */
#include "edge-agent/remote/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "proto/url.h"

/* LINE_ROOM: of one line of the child. STOP_LOOK_MS: how often the stop flag is looked at. STOP_MAX_MS: what a child that was told to stop may take,
 * such as for parts of an upload that it clears at the store. PROGRESS_MS: between two lines of the log. */
enum { LINE_ROOM = 64 * 1024, STOP_LOOK_MS = 100, STOP_MAX_MS = 3500, PROGRESS_MS = 30 * 1000, ARGS_MAX = 16 };

/* Only ever added to, from any thread. */
static atomic_llong begun, ended, failed, moved;

void transfer_count(transfer_counters *out)
{
	int64_t over = atomic_load(&ended); /* first: so that there are never more than have begun */
	out->begun = atomic_load(&begun);
	out->running = out->begun - over;
	out->failed = atomic_load(&failed);
	out->bytes = atomic_load(&moved);
}

/* ---- keys ---- */

static bool is_at_or_below(const char *url, const char *of)
{
	size_t n = strlen(of);
	while (n > 0 && of[n - 1] == '/')
		n--;
	return strncmp(url, of, n) == 0 && (url[n] == '\0' || url[n] == '/');
}

static const transfer_key *key_for(const transfer *t, const char *url)
{
	const transfer_key *best = NULL;
	for (size_t i = 0; i < t->n_keys; i++) {
		const transfer_key *k = &t->keys[i];
		if (is_at_or_below(url, k->url) && (best == NULL || strlen(k->url) > strlen(best->url)))
			best = k;
	}
	return best;
}

/* The environment of the child. What is made is in `texts`, one after the other, and overwritten afterwards. */
typedef struct surroundings {
	const char **list;
	char *texts;
	size_t size;
} surroundings;

static bool is_of_a_store(const char *variable)
{
	static const char *const names[] = {"S3_ENDPOINT_URL=", "ACCESS_KEY_ID=", "SECRET_ACCESS_KEY="};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static void add(surroundings *s, size_t *n, size_t *used, const char *name, const char *value)
{
	if (value == NULL)
		return;
	char *at = s->texts + *used;
	*used += (size_t)(stpcpy(stpcpy(at, name), value) - at) + 1;
	s->list[(*n)++] = at;
}

static void surroundings_make(surroundings *s, const transfer_key *k)
{
	size_t count = 0, n = 0, used = 0;
	while (environ[count] != NULL)
		count++;
	s->list = mem_alloc((count + 4) * sizeof *s->list);
	s->size = 64 + (k->endpoint ? strlen(k->endpoint) : 0) + strlen(k->id) + strlen(k->secret);
	s->texts = mem_alloc(s->size);
	for (size_t i = 0; i < count; i++)
		if (!is_of_a_store(environ[i]))
			s->list[n++] = environ[i];
	add(s, &n, &used, "S3_ENDPOINT_URL=", k->endpoint);
	add(s, &n, &used, "ACCESS_KEY_ID=", k->id);
	add(s, &n, &used, "SECRET_ACCESS_KEY=", k->secret);
}

static void surroundings_free(surroundings *s)
{
	if (s->texts != NULL)
		explicit_bzero(s->texts, s->size);
	free(s->texts);
	free(s->list);
}

/* ---- the child ---- */

typedef struct child {
	const char *url;
	pid_t pid;
	int in, out;   /* its standard input and output */
	buf held;      /* of a line that has not ended */
	bool too_long; /* that line, whose beginning is gone */
	transfer_event_fn on_event;
	void *ctx;
	error said;    /* by its last line; code 0 if that was `done` */
	bool ended;    /* it said its last line */
	bool moves;    /* its bytes come from the network or go there, and are no other's */
	int64_t bytes; /* of them counted so far */
	int64_t progress_at;
} child;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int spawn(const transfer *t, const transfer_key *key, const char *const *args, int in, int out, pid_t *pid, error *err)
{
	const char *argv[ARGS_MAX + 1] = {"ilmare-transfer"};
	surroundings own = {0};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	size_t n = 1;
	argv[n++] = *args++; /* the command */
	argv[n++] = "--until-stdin-ends";
	argv[n++] = "--log-level=warn";
	for (; *args != NULL && n < ARGS_MAX; args++)
		argv[n++] = *args;
	if (key != NULL && key->held)
		surroundings_make(&own, key);
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	int code = posix_spawnp(pid, t->program, &files, &attributes, (char *const *)argv, own.list ? (char *const *)own.list : environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	surroundings_free(&own);
	if (code == ENOENT && strchr(t->program, '/') == NULL)
		return error_set(err, ERROR_UNSUPPORTED,
			"the program ilmare-transfer is neither beside ilmare-edge nor in PATH; remote urls need it");
	if (code == ENOENT)
		return error_set(err, ERROR_UNSUPPORTED, "there is no program %s (remote.program); remote urls need it", t->program);
	return code == 0 ? 0 : error_errno(err, code, "cannot run %s", t->program);
}

/* Every end of ours closes in the child by itself. */
static int start(const transfer *t, const transfer_key *key, const char *const *args, child *c, error *err)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, code = 0;
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		code = error_errno(err, errno, "cannot make a pipe for ilmare-transfer");
	if (code == 0)
		code = spawn(t, key, args, in[0], out[1], &c->pid, err);
	close_fd(&in[0]);
	close_fd(&out[1]);
	if (code != 0) {
		close_fd(&in[1]);
		close_fd(&out[0]);
	}
	c->in = in[1];
	c->out = out[0];
	return code;
}

/* ---- what it says ---- */

static int code_of(const char *word)
{
	static const struct {
		const char *word;
		int code;
	} words[] = {{"usage", ERROR_INVALID}, {"not-found", ERROR_NOT_FOUND}, {"denied", ERROR_DENIED}, {"no-space", ERROR_NO_SPACE},
		{"network", ERROR_OFFLINE}, {"damaged", ERROR_CORRUPT}, {"clock", ERROR_OFFLINE}, {"cancelled", ERROR_TIMEOUT},
		{"changed", ERROR_CHANGED}, {"io", ERROR_IO}, {"refused", ERROR_UNSUPPORTED}, {"limit", ERROR_LIMIT}, {"exists", ERROR_EXISTS},
		{"conflict", ERROR_CONFLICT}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].code;
	return ERROR_INTERNAL;
}

static void count_bytes(child *c, int64_t bytes)
{
	if (c->moves && bytes > c->bytes) {
		atomic_fetch_add(&moved, bytes - c->bytes);
		c->bytes = bytes;
	}
}

static void on_progress(child *c, const cJSON *event)
{
	int64_t now = clock_now().mono_ms, bytes = 0, size = 0;
	json_get_int(event, "event", "bytes", 0, JSON_MAX_INT, &bytes, NULL);
	json_get_int(event, "event", "size", 0, JSON_MAX_INT, &size, NULL);
	count_bytes(c, bytes);
	if (now < c->progress_at)
		return;
	c->progress_at = now + PROGRESS_MS;
	char *shown = mem_strndup(c->url, url_length(c->url));
	log_info("transfer", "under way", L_STR("url", shown), L_INT("bytes", bytes), L_INT("size", size));
	free(shown);
}

/* A file's last line has its size, a folder's the bytes of all. */
static void on_done(child *c, const cJSON *event)
{
	int64_t bytes = 0, size = 0, from = 0;
	c->ended = true;
	json_get_int(event, "event", "bytes", 0, JSON_MAX_INT, &bytes, NULL);
	json_get_int(event, "event", "size", 0, JSON_MAX_INT, &size, NULL);
	json_get_int(event, "event", "resumedAt", 0, JSON_MAX_INT, &from, NULL);
	count_bytes(c, bytes > 0 ? bytes : size - from);
}

static void on_line(child *c, const char *line, size_t len)
{
	cJSON *event = NULL;
	const char *kind = "", *word = "", *message = "";
	if (json_parse(line, len, LINE_ROOM, &event, NULL) != 0 || json_get_string(event, "event", "event", &kind, NULL) != 1) {
		cJSON_Delete(event);
		return;
	}
	if (strcmp(kind, "progress") == 0) {
		on_progress(c, event);
	} else if (strcmp(kind, "error") == 0) {
		json_get_string(event, "event", "code", &word, NULL);
		json_get_string(event, "event", "message", &message, NULL);
		c->ended = true;
		error_set(&c->said, code_of(word), "%s", message);
	} else {
		if (strcmp(kind, "done") == 0)
			on_done(c, event);
		if (c->on_event != NULL)
			c->on_event(c->ctx, event);
	}
	cJSON_Delete(event);
}

static void take_lines(child *c)
{
	char *begin = c->held.data, *end = begin + c->held.len, *newline;
	while (begin < end && (newline = memchr(begin, '\n', (size_t)(end - begin))) != NULL) {
		if (!c->too_long)
			on_line(c, begin, (size_t)(newline - begin));
		c->too_long = false;
		begin = newline + 1;
	}
	c->held.len = (size_t)(end - begin);
	memmove(c->held.data, begin, c->held.len);
	if (c->held.len > LINE_ROOM) {
		c->too_long = true;
		buf_clear(&c->held);
	}
}

/* False at the end of what it says. */
static bool read_some(child *c)
{
	char piece[4096];
	ssize_t n = read(c->out, piece, sizeof piece);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (n == 0)
		return false;
	buf_add(&c->held, piece, (size_t)n);
	take_lines(c);
	return true;
}

static void follow(const transfer *t, child *c)
{
	struct pollfd fd = {.fd = c->out, .events = POLLIN};
	int64_t kill_at = 0;
	do {
		int64_t now = clock_now().mono_ms;
		/* Told to stop: it says so, and ends. */
		if (c->in >= 0 && t->stop != NULL && atomic_load(t->stop)) {
			close_fd(&c->in);
			kill_at = now + STOP_MAX_MS;
		} else if (c->in < 0 && now >= kill_at) {
			kill(c->pid, SIGKILL);
		}
	} while (poll(&fd, 1, STOP_LOOK_MS) <= 0 || read_some(c));
}

static int finish(const transfer *t, child *c, error *err)
{
	int status = 0;
	close_fd(&c->in);
	close_fd(&c->out);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	buf_fini(&c->held);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && c->ended && c->said.code == 0)
		return 0;
	if (t->stop != NULL && atomic_load(t->stop))
		return error_set(err, ERROR_TIMEOUT, "stopped");
	if (c->said.code != 0)
		return error_set(err, c->said.code, "%s", c->said.text);
	if (WIFSIGNALED(status))
		return error_set(err, ERROR_IO, "ilmare-transfer was ended by signal %d", WTERMSIG(status));
	return error_set(err, ERROR_IO, "ilmare-transfer ended with status %d and no word", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int transfer_run(const transfer *t, const char *url, const char *const *args, transfer_event_fn on_event, void *ctx, error *err)
{
	const transfer_key *key = key_for(t, url);
	child c = {.moves = strncmp(args[0], "get", 3) == 0 || strncmp(args[0], "put", 3) == 0,
		.url = url,
		.on_event = on_event,
		.ctx = ctx,
		.progress_at = clock_now().mono_ms + PROGRESS_MS};
	if (key != NULL && key->awaited && getenv("ACCESS_KEY_ID") == NULL)
		return error_set(err, ERROR_OFFLINE,
			"%s: the keys of its object store are not here yet; they are asked for over MQTT, if the link to the broker is TLS", url);
	if (t->stop != NULL && atomic_load(t->stop))
		return error_set(err, ERROR_TIMEOUT, "stopped");
	if (url[0] == '-') /* it would be taken for a flag */
		return error_set(err, ERROR_INVALID, "%s is no url", url);
	atomic_fetch_add(&begun, 1);
	int code = start(t, key, args, &c, err);
	if (code == 0) {
		follow(t, &c);
		code = finish(t, &c, err);
	}
	atomic_fetch_add(&failed, code != 0 && code != ERROR_NOT_FOUND && code != ERROR_TIMEOUT);
	atomic_fetch_add(&ended, 1);
	return code;
}
