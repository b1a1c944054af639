/* The saved state of a scanner: what is accepted is saved the same again, what is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/dataset/scanner.h"
#include "edge-agent/dataset/splitter.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	scanner *one = scanner_new("/nowhere", FORMAT_TXT, LINE_MAX_DEFAULT), *two = scanner_new("/nowhere", FORMAT_TXT, LINE_MAX_DEFAULT);
	buf first = {0}, second = {0};
	error err = {0};
	if (scanner_restore(one, (const char *)data, size, &err) == 0) {
		scanner_save(one, &first);
		if (scanner_restore(two, first.data, first.len, NULL) != 0)
			abort();
		scanner_save(two, &second);
		if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
			abort();
	} else if (err.text[0] == '\0') {
		abort();
	}
	buf_fini(&first);
	buf_fini(&second);
	scanner_free(one);
	scanner_free(two);
	return 0;
}
