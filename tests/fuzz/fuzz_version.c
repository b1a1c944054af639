/* What is written down of a deployed version: what is accepted is safe to be made a path of, and survives encoding; what is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/storage/version.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int same_text(const char *a, const char *b)
{
	return a == NULL || a[0] == '\0' ? b == NULL || b[0] == '\0' : b != NULL && strcmp(a, b) == 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	version one, two;
	error err = {0};
	int code = version_decode((const char *)data, size, &one, &err);

	if (code != 0 && err.text[0] == '\0')
		abort();
	if (code == 0 && one.name != NULL) {
		char *text = version_encode(&one, 0);

		if (strchr(one.name, '/') != NULL || strcmp(one.name, "..") == 0 || version_decode(text, strlen(text), &two, NULL) != 0)
			abort();
		if (one.round != two.round || one.of != two.of || one.bytes != two.bytes || one.folder != two.folder ||
			!digest_equal(&one.sha256, &two.sha256) || !same_text(one.name, two.name) || !same_text(one.format, two.format) ||
			!same_text(one.uid, two.uid))
			abort();
		version_fini(&two);
		free(text);
	}
	version_fini(&one);
	return 0;
}
