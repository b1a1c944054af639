/* One fuzz target for each document: what is taken must come back as something that is taken, and as the same text.
 *
 * A refusal must say why. A target is one line: FUZZ_DOCUMENT(desired, "desired") for the functions desired_decode, _encode and _free.
 */
#ifndef TESTS_FUZZ_FUZZ_DOCUMENT_H
#define TESTS_FUZZ_FUZZ_DOCUMENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "proto/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(int holds, const char *what, const char *text)
{
	if (holds)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, text);
	abort();
}

/* `decode` is a call that uses text, len, &d and &err. */
#define FUZZ_DOCUMENT_WITH(type, decode_call)                                                                                              \
	static type *fuzz_decode(const char *text, size_t len)                                                                                 \
	{                                                                                                                                      \
		type *d = NULL;                                                                                                                    \
		error err = {0};                                                                                                                   \
		int rc = decode_call;                                                                                                              \
                                                                                                                                           \
		fuzz_check((rc == 0) == (d != NULL), "result and document disagree", err.text);                                                    \
		fuzz_check(rc == 0 || (err.code == rc && err.text[0] != '\0'), "refused without a reason", text);                                  \
		return d;                                                                                                                          \
	}                                                                                                                                      \
                                                                                                                                           \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                                           \
	{                                                                                                                                      \
		type *first = fuzz_decode((const char *)data, size);                                                                               \
		type *second;                                                                                                                      \
		char *once, *twice;                                                                                                                \
                                                                                                                                           \
		if (first == NULL)                                                                                                                 \
			return 0;                                                                                                                      \
		once = type##_encode(first);                                                                                                       \
		fuzz_check(once != NULL, "taken, but cannot be written", "");                                                                      \
		second = fuzz_decode(once, strlen(once));                                                                                          \
		fuzz_check(second != NULL, "does not take what it wrote", once);                                                                   \
		twice = type##_encode(second);                                                                                                     \
		fuzz_check(strcmp(once, twice) == 0, "comes back as another text", twice);                                                         \
		free(once);                                                                                                                        \
		free(twice);                                                                                                                       \
		type##_free(first);                                                                                                                \
		type##_free(second);                                                                                                               \
		return 0;                                                                                                                          \
	}

#define FUZZ_DOCUMENT(type) FUZZ_DOCUMENT_WITH(type, type##_decode(text, len, &d, &err))

#endif
