/* The manifest of a round: what is accepted survives encoding and decoding, what is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/dataset/manifest.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static manifest one, two;
	error err = {0};
	if (manifest_decode((const char *)data, size, &one, &err) != 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	char *text = manifest_encode(&one);
	if (manifest_decode(text, strlen(text), &two, NULL) != 0 || memcmp(&one, &two, sizeof one) != 0)
		abort();
	free(text);
	return 0;
}
