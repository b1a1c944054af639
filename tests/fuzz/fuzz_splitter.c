/* The sample splitter: the same answers as the slow reference, whatever the bytes and however they are cut. The first three bytes choose
 * the format, the line limit and the pieces.
 */
#include <stdlib.h>

#include "edge-agent/dataset/splitter.h"
#include "tests/unit/splitter_reference.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	if (size < 3)
		return 0;
	enum dataset_format format = data[0] % 2 == 0 ? FORMAT_TXT : FORMAT_CSV;
	int64_t line_max = 1 + data[1];
	size_t piece = 1 + data[2], done = 0, used, n = 0;
	const char *text = (const char *)data + 3;
	size_t len = size - 3;
	reference r;
	splitter s;
	reference_split(&r, format, line_max, text, len);
	splitter_start(&s, format, line_max);
	while (done < len) {
		size_t end = done + piece < len ? done + piece : len;
		while (splitter_next(&s, text + done, end - done, &used)) {
			done += used;
			check(n < r.n && s.from == r.from[n] && s.offset == r.to[n] && s.offset == (int64_t)done);
			n++;
		}
		check(done + used == end);
		done = end;
	}
	check(n == r.n && s.samples == (int64_t)r.n && s.skipped == r.skipped);
	check(splitter_waiting(&s) == r.waiting && s.header_from == r.header_from && s.header_to == r.header_to);
	reference_free(&r);
	return 0;
}
