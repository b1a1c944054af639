/* What the tests of datasets share: files that are written, appended to and replaced, and a scanner that looks until it has seen all. */
#ifndef TESTS_UNIT_DATASET_KIT_H
#define TESTS_UNIT_DATASET_KIT_H

#include "tests/unit/unit.h"

#include <fcntl.h>

#include "edge-agent/dataset/scanner.h"
#include "edge-agent/dataset/splitter.h"

static inline void kit_put(const char *path, int flags, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
	assert_true(fd >= 0);
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		assert_true(n > 0);
		data += n;
		len -= (size_t)n;
	}
	assert_int_equal(close(fd), 0);
}

static inline void kit_append(const char *path, const char *text)
{
	kit_put(path, O_APPEND, text, strlen(text));
}

/* In place: the same file, emptied and written. */
static inline void kit_rewrite(const char *path, const char *text)
{
	kit_put(path, O_TRUNC, text, strlen(text));
}

/* Another file under the name. The old one goes first: renamed over it, ext4 would at once write the new one to the disk, and a history replaces
 * a file many times. */
static inline void kit_replace(const char *path, const char *data, size_t len)
{
	char *other = mem_printf("%s.new", path);
	kit_put(other, O_EXCL, data, len);
	(void)unlink(path);
	assert_int_equal(rename(other, path), 0);
	free(other);
}

/* Lines "{prefix}{number}\n" for the numbers [from, to). */
static inline void kit_append_lines(const char *path, const char *prefix, int from, int to)
{
	buf b = {0};
	for (int i = from; i < to; i++)
		buf_printf(&b, "%s%d\n", prefix, i);
	kit_append(path, buf_text(&b));
	buf_fini(&b);
}

static inline scan_view kit_look(scanner *s)
{
	scan_view v;
	int looks = 0;
	do {
		(void)scanner_look(s, 1024 * 1024);
		scanner_view(s, &v);
		assert_true(++looks < 10000);
	} while (v.more);
	assert_true(v.looked);
	return v;
}

#endif
