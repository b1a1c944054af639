/* See document_check.h. */
#include "tests/unit/document_check.h"

#include <cjson/cJSON.h>
#include <ctype.h>

#include "common/json.h"
#include "proto/document.h"
#include "tests/unit/unit.h"

enum { DOCUMENT_CHECK_ROOM = DOCUMENT_MAX + 1 };

static const struct {
	enum member_type type;
	const char *json;
} values[] = {
	{MEMBER_STRING, "\"x y\""}, {MEMBER_NUMBER, "7"}, {MEMBER_BOOL, "true"}, {MEMBER_ARRAY, "[true]"}, {MEMBER_OBJECT, "{\"x\":1}"}};

static char *print(const cJSON *tree)
{
	char *text = cJSON_PrintUnformatted(tree);

	assert_non_null(text);
	return text;
}

static int decode(const codec *c, const char *text, error *err)
{
	void *document = NULL;
	int code = c->decode(text, strlen(text), &document, err);

	if (code == 0) {
		assert_non_null(document);
		c->free(document);
	} else {
		assert_null(document);
	}
	return code;
}

void document_refused(const codec *c, const char *text, int code, const char *words)
{
	error err = {0};
	int got = decode(c, text, &err);

	if (got != code)
		fail_msg("%s: %d instead of %d (%s) for %s", c->name, got, code, err.text, text);
	if (strstr(err.text, words) == NULL || strncmp(err.text, c->name, strlen(c->name)) != 0)
		fail_msg("%s: the text '%s' does not name '%s'", c->name, err.text, words);
}

void *document_taken(const codec *c, const char *text)
{
	void *document = NULL;
	error err = {0};

	if (c->decode(text, strlen(text), &document, &err) != 0)
		fail_msg("%s: refused: %s: %s", c->name, err.text, text);
	return document;
}

/* What is taken must come back as something that is taken and comes back the same. */
static void taken_and_stable(const codec *c, const char *text)
{
	void *first = document_taken(c, text);
	char *once = c->encode(first);
	void *second = document_taken(c, once);
	char *twice = c->encode(second);

	assert_string_equal(once, twice);
	free(once);
	free(twice);
	c->free(first);
	c->free(second);
}

/* ---- changing one place ---- */

static cJSON *step(cJSON *at, const char **path)
{
	size_t len = strcspn(*path, ".[");
	char name[100];

	if (**path == '[') {
		cJSON *entry = cJSON_GetArrayItem(at, atoi(*path + 1));

		*path += strcspn(*path, "]") + 1;
		return entry;
	}
	if (**path == '.')
		return (*path)++, step(at, path);
	(void)snprintf(name, sizeof(name), "%.*s", (int)len, *path);
	*path += len;
	return cJSON_GetObjectItemCaseSensitive(at, name);
}

/* The value at `path` and what holds it. */
static cJSON *find(cJSON *root, const char *path, cJSON **parent)
{
	cJSON *at = root;

	while (at != NULL && *path != '\0') {
		*parent = at;
		at = step(at, &path);
	}
	return at;
}

char *document_with(const char *example, const char *path, const char *json)
{
	cJSON *root = cJSON_Parse(example);
	cJSON *parent = NULL;
	cJSON *at = find(root, path, &parent);
	cJSON *value = json != NULL ? cJSON_Parse(json) : NULL;
	char *text;

	if (at == NULL || (json != NULL && value == NULL))
		fail_msg("the example has no %s, or %s is not JSON", path, json);
	if (value == NULL) {
		cJSON_Delete(cJSON_DetachItemViaPointer(parent, at));
	} else {
		if (at->string != NULL)
			value->string = mem_strdup(at->string);
		assert_true(cJSON_ReplaceItemViaPointer(parent, at, value));
	}
	text = print(root);
	cJSON_Delete(root);
	return text;
}

/* ---- one member in all ways ---- */

static const member *row_of(const member *members, size_t n, const char *path)
{
	char general[200];
	size_t len = 0;

	for (const char *p = path; *p != '\0' && len < sizeof(general) - 1; p++) {
		if (!isdigit((unsigned char)*p) || len == 0 || general[len - 1] != '[')
			general[len++] = *p;
		else
			p += strcspn(p, "]") - 1;
	}
	general[len] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (strcmp(members[i].path, general) == 0)
			return &members[i];
	}
	fail_msg("the table has no row for %s (%s)", general, path);
	return NULL;
}

/* An index ends the path of an array's entry; such a one cannot be missing. */
static bool is_entry(const char *path)
{
	return path[strlen(path) - 1] == ']';
}

static const char *last_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL ? dot + 1 : path;
}

static void check_absence(const codec *c, const char *example, const char *path, bool needed)
{
	char *gone = document_with(example, path, NULL);
	char *null = document_with(example, path, "null");

	if (is_entry(path)) {
		taken_and_stable(c, gone);
		document_refused(c, null, ERROR_INVALID, "");
	} else if (needed) {
		document_refused(c, gone, ERROR_INVALID, last_name(path));
		document_refused(c, null, ERROR_INVALID, last_name(path));
	} else {
		taken_and_stable(c, gone);
		taken_and_stable(c, null);
	}
	free(gone);
	free(null);
}

/* A member whose name begins with another case is one that nobody knows. */
static void check_case(const codec *c, const char *example, const char *path, bool needed)
{
	cJSON *root = cJSON_Parse(example);
	cJSON *parent = NULL;
	cJSON *at = find(root, path, &parent);
	char *text;

	if (!is_entry(path)) {
		at->string[0] = (char)toupper((unsigned char)at->string[0]);
		text = print(root);
		if (needed)
			document_refused(c, text, ERROR_INVALID, last_name(path));
		else
			taken_and_stable(c, text);
		free(text);
	}
	cJSON_Delete(root);
}

static void check_types(const codec *c, const char *example, const char *path, enum member_type type)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *text = document_with(example, path, values[i].json);

		if ((values[i].type & type) == 0)
			document_refused(c, text, ERROR_INVALID, is_entry(path) ? "" : last_name(path));
		else if (type == MEMBER_ANY)
			taken_and_stable(c, text);
		else
			(void)decode(c, text, NULL); /* the right type, perhaps a wrong value: no crash */
		free(text);
	}
}

/* Numbers that are no counts: none may be taken for another number. */
static void check_numbers(const codec *c, const char *example, const char *path)
{
	static const char *const odd[] = {"-1", "0.5", "1e300", "-1e300", "9007199254740992", "-9007199254740993", "1e-300", "-0"};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char *text = document_with(example, path, odd[i]);

		if (decode(c, text, NULL) == 0)
			taken_and_stable(c, text);
		free(text);
	}
}

static void check_long_text(const codec *c, const char *example, const char *path)
{
	char *big = mem_alloc(5003);
	char *text;

	memset(big, 'a', 5002);
	big[0] = big[5001] = '"';
	text = document_with(example, path, big);
	document_refused(c, text, ERROR_INVALID, is_entry(path) ? "" : last_name(path));
	free(text);
	free(big);
}

static void check_member(const codec *c, const char *example, const char *path, const member *row)
{
	check_absence(c, example, path, row->needed);
	check_case(c, example, path, row->needed);
	check_types(c, example, path, row->type);
	if ((row->type & MEMBER_NUMBER) != 0 && row->type != MEMBER_ANY)
		check_numbers(c, example, path);
	if ((row->type & MEMBER_STRING) != 0 && row->type != MEMBER_ANY)
		check_long_text(c, example, path);
}

/* ---- the whole document ---- */

typedef struct walk {
	const codec *codec;
	const char *example;
	const member *members;
	size_t n;
	bool *seen;
} walk;

static void check_below(const walk *w, const cJSON *at, const char *path)
{
	const cJSON *child;
	int i = 0;

	cJSON_ArrayForEach(child, at) {
		char *place =
			cJSON_IsArray(at) ? mem_printf("%s[%d]", path, i) : mem_printf("%s%s%s", path, *path == '\0' ? "" : ".", child->string);
		const member *row = row_of(w->members, w->n, place);

		w->seen[row - w->members] = true;
		check_member(w->codec, w->example, place, row);
		if (row->type != MEMBER_ANY)
			check_below(w, child, place);
		free(place);
		i++;
	}
}

static void check_version(const codec *c, const char *example)
{
	static const struct {
		const char *json;
		int code;
	} versions[] = {{"2", ERROR_UNSUPPORTED}, {"0", ERROR_UNSUPPORTED}, {"-1", ERROR_UNSUPPORTED}, {"1.5", ERROR_INVALID},
		{"\"1\"", ERROR_INVALID}, {"true", ERROR_INVALID}, {"[1]", ERROR_INVALID}, {"1e300", ERROR_INVALID}};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		char *text = document_with(example, "v", versions[i].json);

		document_refused(c, text, versions[i].code, "v");
		free(text);
	}
}

static void check_text(const codec *c, const char *example)
{
	size_t len = strlen(example);
	char *text = mem_alloc(DOCUMENT_CHECK_ROOM + len);
	error err;

	for (size_t cut = 0; cut < len; cut++) {
		void *document = NULL;

		assert_int_not_equal(c->decode(example, cut, &document, &err), 0);
		assert_null(document);
	}
	/* Members that nobody knows, in any depth that is allowed, change nothing. */
	(void)snprintf(text, DOCUMENT_CHECK_ROOM + len, "{\"further\":[{\"a\":[1,2,{}]}],%s", example + 1);
	taken_and_stable(c, text);
	/* Too deep, and too long. */
	(void)snprintf(text, DOCUMENT_CHECK_ROOM + len,
		"{\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],%s", example + 1);
	document_refused(c, text, ERROR_LIMIT, "");
	memset(text, ' ', DOCUMENT_CHECK_ROOM);
	memcpy(text + DOCUMENT_CHECK_ROOM - 1, example, len + 1);
	document_refused(c, text, ERROR_LIMIT, "");
	free(text);
	document_refused(c, "[]", ERROR_INVALID, "");
	document_refused(c, "null", ERROR_INVALID, "");
	document_refused(c, "{}", ERROR_INVALID, "v");
}

void document_check(const codec *c, const char *example, const member *members, size_t n)
{
	void *document = document_taken(c, example);
	char *again = c->encode(document);
	cJSON *tree = cJSON_Parse(example);
	walk w = {c, example, members, n, mem_alloc(n * sizeof(bool))};

	assert_string_equal(again, example);
	free(again);
	c->free(document);
	c->free(NULL);
	check_below(&w, tree, "");
	for (size_t i = 0; i < n; i++) {
		if (!w.seen[i])
			fail_msg("%s: the example has no %s", c->name, members[i].path);
	}
	check_version(c, example);
	check_text(c, example);
	cJSON_Delete(tree);
	free(w.seen);
}
