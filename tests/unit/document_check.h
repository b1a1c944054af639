/* One test for every document: a table of its members, against which each member of a full example is broken in all ways. */
#ifndef TESTS_UNIT_DOCUMENT_CHECK_H
#define TESTS_UNIT_DOCUMENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

typedef struct codec {
	const char *name; /* begins every error text */
	int (*decode)(const char *data, size_t len, void **out, error *err);
	char *(*encode)(const void *document);
	void (*free)(void *document);
} codec;

/* A codec from the functions of `type` in proto/document.h. */
#define CHECK_CODEC(type, label)                                                                                                           \
	static int type##_check_decode(const char *data, size_t len, void **out, error *err)                                                   \
	{                                                                                                                                      \
		type *d = NULL;                                                                                                                    \
		int rc = type##_decode(data, len, &d, err);                                                                                        \
		*out = d;                                                                                                                          \
		return rc;                                                                                                                         \
	}                                                                                                                                      \
	static char *type##_check_encode(const void *d)                                                                                        \
	{                                                                                                                                      \
		return type##_encode(d);                                                                                                           \
	}                                                                                                                                      \
	static void type##_check_free(void *d)                                                                                                 \
	{                                                                                                                                      \
		type##_free(d);                                                                                                                    \
	}                                                                                                                                      \
	static const codec type##_codec = {label, type##_check_decode, type##_check_encode, type##_check_free}

enum member_type {
	MEMBER_STRING = 1,
	MEMBER_NUMBER = 2,
	MEMBER_BOOL = 4,
	MEMBER_ARRAY = 8,
	MEMBER_OBJECT = 16,
	MEMBER_ANY = 31, /* and what is below it is not looked at */
};

typedef struct member {
	const char *path; /* "trained.models[].url" */
	enum member_type type;
	bool needed;
} member;

/* `example` has every member. Checks: it comes back byte for byte; every member of it is in the table, and the reverse; each member taken
 * away or null is refused or absent, as the table says; in another case it is absent; of every other type it is refused with an error that
 * names it; further members are ignored; a version other than 1, cuts at every byte, and depth are refused. */
void document_check(const codec *c, const char *example, const member *members, size_t n);

/* The document is refused with `code`, and the text holds `words`. */
void document_refused(const codec *c, const char *text, int code, const char *words);
/* The document is taken; gives it, to be freed with c->free. */
void *document_taken(const codec *c, const char *text);
/* The example with the value at `path` ("a.b[0].c") replaced by `json` (NULL: taken away). To be freed. */
char *document_with(const char *example, const char *path, const char *json);

#endif
