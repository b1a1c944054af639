/* Topics: one table says what each kind looks like below the root, and drives both parsing and building, so the two cannot disagree.
 *
 * A pattern is a list of levels; a level that is one of the marks below stands for a field of `struct topic`, anything else for itself.
 * Parsing copies nothing before the whole topic was checked against its bound, and every field is checked as a name before it is stored:
 * what comes out of topic_parse never holds '/', '+', '#', control characters or anything but ASCII.
 */
#include "proto/topic.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"

enum { MAX_LEVELS = 8 };

#define NS "{ns}"
#define NAME "{name}"
#define NODE "{node}"
#define WHO "{who}" /* a node, or the cloud agent */
#define STAGE "{stage}"
#define WHAT "{what}"

static const char *const patterns[][MAX_LEVELS + 1] = {
	[TOPIC_STATE] = {"ns", NS, "job", NAME, "state"},
	[TOPIC_REPORT] = {"ns", NS, "job", NAME, "node", NODE, STAGE, WHAT},
	[TOPIC_STATS] = {"ns", NS, "job", NAME, "node", NODE, "infer", "stats"},
	[TOPIC_DATASET_STATUS] = {"ns", NS, "dataset", NAME, "node", NODE, "status"},
	[TOPIC_DESIRED] = {"node", NODE, "job", NS, NAME},
	[TOPIC_DATASET] = {"node", NODE, "dataset", NS, NAME},
	[TOPIC_INVENTORY] = {"node", NODE, "inventory"},
	[TOPIC_CREDENTIAL_REQUEST] = {"node", NODE, "credential", "request"},
	[TOPIC_CREDENTIAL_RESPONSE] = {"node", NODE, "credential", "response"},
	[TOPIC_PRESENCE] = {"presence", WHO},
};
enum { N_KINDS = sizeof(patterns) / sizeof(patterns[0]) };

static const char *const what_words[] = {
	[REPORT_READY] = "ready",
	[REPORT_COMPLETED] = "completed",
	[REPORT_FAILED] = "failed",
	[REPORT_WRITTEN] = "written",
};

const char *report_what_word(enum report_what w)
{
	return (unsigned)w < sizeof(what_words) / sizeof(what_words[0]) ? what_words[w] : "?";
}

bool report_what_parse(const char *word, enum report_what *out)
{
	for (unsigned i = 0; i < sizeof(what_words) / sizeof(what_words[0]); i++) {
		if (strcmp(word, what_words[i]) == 0) {
			*out = (enum report_what)i;
			return true;
		}
	}
	return false;
}

/* ---- names ---- */

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* An RFC 1123 label up to `end`. */
static bool label_valid(const char *begin, const char *end)
{
	if (begin == end || !is_alnum(*begin) || !is_alnum(end[-1]))
		return false;
	for (const char *p = begin; p < end; p++) {
		if (!is_alnum(*p) && *p != '-')
			return false;
	}
	return true;
}

bool name_valid(const char *s)
{
	size_t len = strnlen(s, NAME_MAX_NAME + 1);
	const char *label = s;

	if (len > NAME_MAX_NAME)
		return false;
	for (const char *p = s; p <= s + len; p++) {
		if (*p != '.' && *p != '\0')
			continue;
		if (!label_valid(label, p))
			return false;
		label = p + 1;
	}
	return true;
}

bool name_valid_ns(const char *s)
{
	size_t len = strnlen(s, NAME_MAX_NS + 1);

	return len <= NAME_MAX_NS && label_valid(s, s + len);
}

bool name_valid_node(const char *s)
{
	return name_valid(s) && strcmp(s, PRESENCE_CLOUD) != 0;
}

bool topic_root_valid(const char *root)
{
	size_t len = strnlen(root, TOPIC_ROOT_MAX + 1);
	char last = '/';

	if (len == 0 || len > TOPIC_ROOT_MAX || *root == '$')
		return false;
	for (const char *p = root; *p != '\0'; last = *p++) {
		if (*p <= ' ' || *p > '~' || *p == '+' || *p == '#' || (*p == '/' && last == '/'))
			return false;
	}
	return last != '/';
}

/* ---- parsing ---- */

/* Bytes from outside, made fit for an error text: bounded and printable. */
static void printable(const char *text, char out[81])
{
	size_t n = 0;

	for (; text[n] != '\0' && n < 80; n++)
		out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	out[n] = '\0';
}

static int refuse(error *err, const char *text, const char *why, const char *level)
{
	char shown[81], part[81];

	printable(text, shown);
	printable(level, part);
	if (*level == '\0')
		return error_set(err, ERROR_INVALID, "topic '%s': %s", shown, why);
	return error_set(err, ERROR_INVALID, "topic '%s': %s '%s'", shown, why, part);
}

static bool is_mark(const char *pattern)
{
	return *pattern == '{';
}

/* Store the level in the field that the mark stands for; NULL, or what is wrong with it. */
static const char *take(topic *t, const char *mark, const char *level)
{
	if (strcmp(mark, NS) == 0) {
		if (!name_valid_ns(level))
			return "this is no namespace:";
		memcpy(t->ns, level, strlen(level) + 1);
	} else if (strcmp(mark, NAME) == 0) {
		if (!name_valid(level))
			return "this is no name of a job or dataset:";
		memcpy(t->name, level, strlen(level) + 1);
	} else if (strcmp(mark, NODE) == 0 || strcmp(mark, WHO) == 0) {
		if (!(strcmp(mark, WHO) == 0 ? name_valid(level) : name_valid_node(level)))
			return "this is no name of a node:";
		memcpy(t->node, level, strlen(level) + 1);
	} else if (strcmp(mark, STAGE) == 0) {
		if (!stage_parse_word(level, &t->stage))
			return "this is no stage (train, eval, deploy):";
	} else if (!report_what_parse(level, &t->what)) {
		return "this is nothing that a report says (ready, completed, failed, written):";
	}
	return NULL;
}

/* Fixed levels and their number alone decide the kind, so that a wrong name is reported as such and not as an unknown topic. */
static bool pattern_matches(const char *const *pattern, char *const *levels, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (pattern[i] == NULL || (!is_mark(pattern[i]) && strcmp(pattern[i], levels[i]) != 0))
			return false;
	}
	return pattern[n] == NULL;
}

static int find_kind(char *const *levels, size_t n)
{
	/* A report's pattern also covers `infer/stats`: the kind with more fixed levels comes first. */
	if (pattern_matches(patterns[TOPIC_STATS], levels, n))
		return TOPIC_STATS;
	for (int k = 0; k < N_KINDS; k++) {
		if (pattern_matches(patterns[k], levels, n))
			return k;
	}
	return -1;
}

/* Cut the text at each '/'; 0 if there are more levels than any topic has. */
static size_t split(char *text, char *levels[MAX_LEVELS])
{
	size_t n = 0;

	for (;;) {
		char *slash = strchr(text, '/');

		if (n == MAX_LEVELS)
			return 0;
		levels[n++] = text;
		if (slash == NULL)
			return n;
		*slash = '\0';
		text = slash + 1;
	}
}

int topic_parse(const char *root, const char *text, topic *out, error *err)
{
	size_t root_len = strlen(root);
	char copy[TOPIC_MAX + 1];
	char *levels[MAX_LEVELS];
	topic t = {0};
	size_t len = strnlen(text, TOPIC_MAX + 1);
	size_t n;
	int kind;

	if (len > TOPIC_MAX)
		return refuse(err, text, "it is too long", "");
	if (strncmp(text, root, root_len) != 0 || text[root_len] != '/')
		return refuse(err, text, "it does not begin with the root", root);
	memcpy(copy, text + root_len + 1, len - root_len);
	n = split(copy, levels);
	kind = n == 0 ? -1 : find_kind(levels, n);
	if (kind < 0)
		return refuse(err, text, "there is no such topic", "");
	t.kind = (enum topic_kind)kind;
	for (size_t i = 0; i < n; i++) {
		const char *mark = patterns[kind][i];
		const char *wrong = is_mark(mark) ? take(&t, mark, levels[i]) : NULL;

		if (wrong != NULL)
			return refuse(err, text, wrong, *levels[i] == '\0' ? "(empty)" : levels[i]);
	}
	if (t.kind == TOPIC_REPORT && t.what == REPORT_WRITTEN && t.stage != STAGE_DEPLOY)
		return refuse(err, text, "only deploy has 'written', not", stage_word(t.stage));
	*out = t;
	return 0;
}

/* ---- building ---- */

static const char *field(const topic *t, const char *pattern)
{
	if (!is_mark(pattern))
		return pattern;
	if (strcmp(pattern, NS) == 0)
		return t->ns;
	if (strcmp(pattern, NAME) == 0)
		return t->name;
	if (strcmp(pattern, STAGE) == 0)
		return stage_word(t->stage);
	if (strcmp(pattern, WHAT) == 0)
		return report_what_word(t->what);
	return t->node;
}

char *topic_format(const char *root, const topic *t)
{
	buf b = {0};

	buf_puts(&b, root);
	for (size_t i = 0; patterns[t->kind][i] != NULL; i++) {
		buf_putc(&b, '/');
		buf_puts(&b, field(t, patterns[t->kind][i]));
	}
	return buf_detach(&b);
}

char *topic_edge_filter(const char *root, const char *node)
{
	return mem_printf("%s/node/%s/#", root, node);
}

/* A kind's pattern with every field a wildcard. */
static char *kind_filter(const char *root, enum topic_kind kind)
{
	buf b = {0};

	buf_puts(&b, root);
	for (size_t i = 0; patterns[kind][i] != NULL; i++) {
		buf_putc(&b, '/');
		buf_puts(&b, is_mark(patterns[kind][i]) ? "+" : patterns[kind][i]);
	}
	return buf_detach(&b);
}

char **topic_cloud_filters(const char *root)
{
	/* Every kind but answers with credentials; the filter of reports covers stats too, and a second one would bring each of them twice. */
	char **filters = mem_alloc(N_KINDS * sizeof(*filters));
	size_t n = 0;

	for (int k = 0; k < N_KINDS; k++) {
		if (k != TOPIC_STATS && k != TOPIC_CREDENTIAL_RESPONSE)
			filters[n++] = kind_filter(root, (enum topic_kind)k);
	}
	return filters;
}
