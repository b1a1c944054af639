/* A stand-in for ilmare-transfer: the test program itself, run again under that name, which keeps objects as files of a folder. It fails at the n-th
 * command that is asked of it, before, in the midst of or after what it does, or does not even say so.
 *
 *     int main(int argc, char **argv)
 *     {
 *         if (fake_is_asked(argv))
 *             fake_main(argc, argv);
 *         …
 */
#ifndef TESTS_UNIT_FAKE_TRANSFER_H
#define TESTS_UNIT_FAKE_TRANSFER_H

#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "edge-agent/remote/transfer.h"

#define FAKE_PROGRAM "/proc/self/exe"

/* FAKE_MIDST: killed after the first file of a folder, or after all that it does, without a word. */
enum fake_how { FAKE_BEFORE, FAKE_MIDST, FAKE_AFTER, FAKE_HOWS };

/* ---- for the test ---- */

/* The store's folder; no fault. */
static inline void fake_begin(const char *folder)
{
	setenv("FAKE_STORE", folder, 1);
	setenv("FAKE_AT", "0", 1);
}

static inline void fake_fail(int n, enum fake_how how)
{
	char *at = mem_printf("%d", n), *kind = mem_printf("%d", (int)how), *count = mem_printf("%s/.count", getenv("FAKE_STORE"));
	setenv("FAKE_AT", at, 1);
	setenv("FAKE_HOW", kind, 1);
	(void)unlink(count);
	free(count);
	free(kind);
	free(at);
}

/* How many commands there were since fake_fail. */
static inline int fake_asked(void)
{
	char *count = mem_printf("%s/.count", getenv("FAKE_STORE"));
	struct stat st;
	int n = stat(count, &st) == 0 ? (int)st.st_size : 0;
	free(count);
	return n;
}

static inline char *fake_path(const char *url)
{
	return mem_printf("%s/%s", getenv("FAKE_STORE"), url + strlen("s3://"));
}

static inline void fake_copy(const char *from, const char *to)
{
	buf data = {0};
	error err = {0};
	char *parent = file_parent(to);
	if (file_read(from, 1 << 24, &data, &err) != 0 || file_make_dirs(parent, 0755, &err) != 0 ||
		file_write(to, buf_text(&data), data.len, 0644, &err) != 0) {
		fprintf(stderr, "fake: %s\n", err.text);
		exit(1);
	}
	free(parent);
	buf_fini(&data);
}

static inline void fake_put(const char *url, const char *text)
{
	char *path = fake_path(url), *parent = file_parent(path);
	error err = {0};
	assert_int_equal(file_make_dirs(parent, 0755, &err), 0);
	assert_int_equal(file_write(path, text, strlen(text), 0644, &err), 0);
	free(parent);
	free(path);
}

/* The object, or NULL; to be freed. */
static inline char *fake_text(const char *url)
{
	char *path = fake_path(url);
	buf data = {0};
	char *text = file_read(path, 1 << 24, &data, NULL) == 0 ? mem_strdup(buf_text(&data)) : NULL;
	buf_fini(&data);
	free(path);
	return text;
}

static inline bool fake_is_asked(char **argv)
{
	return strcmp(argv[0], "ilmare-transfer") == 0;
}

/* ---- the program ---- */

typedef struct fake {
	const char *words[4];
	const char *last, *first, *none_match, *match, *range, *same, *max;
	bool only_new, only;
	bool dies; /* after one file more */
	int files;
} fake;

static inline int fake_say(const char *code, int status)
{
	if (status == 0)
		printf("{\"event\":\"done\"}\n");
	else
		printf("{\"event\":\"error\",\"code\":\"%s\",\"exit\":%d,\"message\":\"the stand-in says %s\"}\n", code, status, code);
	return status;
}

static inline void fake_etag(const char *path, char out[20])
{
	buf data = {0};
	char hex[DIGEST_HEX_SIZE];
	digest d;
	(void)file_read(path, 1 << 24, &data, NULL);
	digest_of(buf_text(&data), data.len, &d);
	digest_hex(&d, hex);
	snprintf(out, 20, "%.16s", hex);
	buf_fini(&data);
}

static inline int fake_done(const char *path, bool changed)
{
	struct stat st;
	char etag[20];
	fake_etag(path, etag);
	if (changed && stat(path, &st) == 0)
		printf("{\"event\":\"done\",\"changed\":true,\"size\":%lld,\"etag\":\"%s\"}\n", (long long)st.st_size, etag);
	else
		printf("{\"event\":\"done\",\"changed\":false}\n");
	return 0;
}

static inline void fake_count_file(fake *f)
{
	f->files++;
	if (f->dies)
		raise(SIGKILL);
}

/* Of whole folders the shell does the work. It counts as a file. */
static inline void fake_shell(fake *f, const char *script, const char *a, const char *b)
{
	char *command;
	setenv("A", a, 1);
	setenv("B", b != NULL ? b : "", 1);
	command = mem_printf("set -e; %s", script);
	if (system(command) != 0)
		exit(1);
	free(command);
	fake_count_file(f);
}

static inline int fake_get(fake *f, const char *from)
{
	struct stat st, here;
	char etag[20];
	if (stat(from, &st) != 0 || !S_ISREG(st.st_mode))
		return fake_say("not-found", 3);
	fake_etag(from, etag);
	if (f->max != NULL && st.st_size > atoll(f->max))
		return fake_say("limit", 13);
	if (f->match != NULL && strcmp(f->match, etag) != 0)
		return fake_say("changed", 10);
	if (f->range != NULL && stat(f->words[1], &here) == 0) {
		buf a = {0}, b = {0};
		(void)file_read(from, 1 << 24, &a, NULL);
		(void)file_read(f->words[1], 1 << 24, &b, NULL);
		bool grown = (int64_t)b.len == atoll(f->range) && a.len >= b.len && memcmp(buf_text(&a), buf_text(&b), b.len) == 0;
		if (!grown)
			return fake_say("changed", 10);
		buf_fini(&a);
		buf_fini(&b);
	}
	fake_copy(from, f->words[1]);
	fake_count_file(f);
	return fake_done(from, true);
}

static inline int fake_put_folder(fake *f, const char *to)
{
	char *mark = mem_printf("%s/%s", to, f->last != NULL ? f->last : "-");
	if (f->only)
		fake_shell(f, "rm -rf \"$A\"", to, NULL);
	setenv("LAST", f->last != NULL ? f->last : "-", 1);
	fake_shell(f, "mkdir -p \"$B\"; cd \"$A\"; find . -type f ! -path \"./$LAST\" -exec cp --parents {} \"$B\" \\;", f->words[0], to);
	if (f->last != NULL && f->only_new && access(mark, F_OK) == 0)
		return fake_say("exists", 14);
	if (f->last != NULL)
		fake_shell(f, "cp \"$A/$LAST\" \"$B/$LAST\"", f->words[0], to);
	free(mark);
	printf("{\"event\":\"done\",\"files\":%d}\n", f->files);
	return 0;
}

static inline int fake_list(const char *path)
{
	char *command = mem_printf("test ! -d '%s' || cd '%s' && for f in *; do test ! -d \"$f\" || "
							   "printf '{\"event\":\"entry\",\"name\":\"%%s\",\"folder\":true}\\n' \"$f\"; done",
		path, path);
	fflush(stdout);
	if (system(command) != 0)
		exit(1);
	free(command);
	return fake_say("", 0);
}

static inline int fake_act(fake *f, const char *command)
{
	const char *url = strcmp(command, "put") == 0 || strcmp(command, "put-folder") == 0 ? f->words[1] : f->words[0];
	char *at = fake_path(url), *bucket = mem_printf("%s/%.*s", getenv("FAKE_STORE"), (int)strcspn(url + 5, "/"), url + 5), etag[20];
	struct stat st;
	if (access(bucket, F_OK) != 0)
		return fake_say("not-found", 3);
	free(bucket);
	while (at[strlen(at) - 1] == '/')
		at[strlen(at) - 1] = '\0';
	if (strcmp(command, "get") == 0)
		return fake_get(f, at);
	if (strcmp(command, "head") == 0) {
		if (stat(at, &st) != 0 || !S_ISREG(st.st_mode))
			return fake_say("not-found", 3);
		fake_etag(at, etag);
		return fake_done(at, f->none_match == NULL || strcmp(f->none_match, etag) != 0);
	}
	if (strcmp(command, "put") == 0) {
		fake_copy(f->words[0], at);
		fake_count_file(f);
		return fake_done(at, true);
	}
	if (strcmp(command, "put-folder") == 0)
		return fake_put_folder(f, at);
	if (strcmp(command, "list") == 0)
		return fake_list(at);
	if (strcmp(command, "get-folder") == 0) {
		if (stat(at, &st) != 0 || !S_ISDIR(st.st_mode))
			return fake_say("not-found", 3);
		fake_shell(f, "mkdir -p \"$B\"; cp -r \"$A/.\" \"$B\"", at, f->words[1]);
	} else if (strcmp(command, "delete") == 0) {
		(void)unlink(at);
	} else if (strcmp(command, "delete-folder") == 0) {
		if (f->first != NULL) {
			setenv("LAST", f->first, 1);
			fake_shell(f, "rm -f \"$A/$LAST\"", at, NULL);
		}
		fake_shell(f, "rm -rf \"$A\"", at, NULL);
	} else if (strcmp(command, "move-folder") == 0) {
		char *to = fake_path(f->words[1]);
		fake_shell(f, "mkdir -p \"$B\"; cp -r \"$A/.\" \"$B\"", at, to);
		fake_shell(f, "rm -rf \"$A\"", at, NULL);
	} else {
		return fake_say("usage", 2);
	}
	printf("{\"event\":\"done\",\"files\":%d}\n", f->files);
	return 0;
}

static inline void fake_parse(fake *f, int argc, char **argv)
{
	const struct {
		const char *name;
		const char **value;
		bool *set;
	} flags[] = {{"--last", &f->last, NULL}, {"--first", &f->first, NULL}, {"--if-none-match", &f->none_match, NULL},
		{"--if-match", &f->match, NULL}, {"--range", &f->range, NULL}, {"--same", &f->same, NULL}, {"--max-size", &f->max, NULL},
		{"--attempts", NULL, NULL}, {"--new", NULL, &f->only_new}, {"--only", NULL, &f->only}};
	size_t words = 0;
	for (int i = 2; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) != 0) {
			f->words[words++] = argv[i];
			continue;
		}
		for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
			if (strcmp(argv[i], flags[k].name) != 0)
				continue;
			if (flags[k].set != NULL) {
				*flags[k].set = true;
			} else {
				i++;
				if (flags[k].value != NULL)
					*flags[k].value = argv[i];
			}
			break;
		}
	}
}

/* FAKE_SAYS: a file with what it says, whatever it is asked; FAKE_ENDS: how it ends. */
static inline int fake_run(int argc, char **argv)
{
	fake f = {0};
	if (getenv("FAKE_SAYS") != NULL) {
		buf says = {0};
		bool said = file_read(getenv("FAKE_SAYS"), 1 << 24, &says, NULL) == 0 && fwrite(buf_text(&says), 1, says.len, stdout) == says.len;
		fflush(stdout);
		buf_fini(&says);
		if (!said)
			return 1;
		return atoi(getenv("FAKE_ENDS"));
	}
	char *count = mem_printf("%s/.count", getenv("FAKE_STORE"));
	int fd = open(count, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || write(fd, "x", 1) != 1)
		return 1;
	close(fd);
	free(count);
	bool fails = fake_asked() == atoi(getenv("FAKE_AT"));
	int how = fails ? atoi(getenv("FAKE_HOW")) : -1;
	fake_parse(&f, argc, argv);
	f.dies = how == FAKE_MIDST;
	if (how == FAKE_BEFORE)
		return fake_say("network", 6);
	if (how >= FAKE_MIDST && freopen("/dev/null", "w", stdout) == NULL)
		return 1;
	int status = fake_act(&f, argv[1]);
	fflush(stdout);
	/* What it did is not heard of. */
	if (how >= FAKE_MIDST)
		raise(SIGKILL);
	return status;
}

/* Does not return. What it has allocated ends with it, and is not looked at. */
static inline void fake_main(int argc, char **argv)
{
	int status = fake_run(argc, argv);
	fflush(stdout);
	_exit(status);
}

#endif
