/* The digest of a file that is being written is that of the file, however it grows; a file that is too short is an error, not a digest. */
#include "tests/unit/unit.h"

#include "common/digest.h"
#include "common/random.h"
#include "transfer/follower.h"

enum { SIZE = 1000000 };

static int open_file(void)
{
	FILE *file = tmpfile();
	assert_non_null(file);
	int fd = dup(fileno(file));
	assert_true(fd >= 0);
	fclose(file);
	return fd;
}

static void fill(unsigned char *data, uint64_t seed)
{
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)random_next(&seed);
}

static void as_it_grows(void **state)
{
	unsigned char *data = mem_alloc(SIZE);
	char hex[FOLLOWER_HEX], expected[DIGEST_HEX_SIZE];
	uint64_t seed = 1;
	digest d;
	(void)state;
	fill(data, seed);
	digest_of(data, SIZE, &d);
	digest_hex(&d, expected);
	for (int round = 0; round < 20; round++) {
		int fd = open_file();
		follower *f = follower_new(fd, "SHA256");
		for (int64_t at = 0; at < SIZE;) {
			int64_t step = 1 + random_below(&seed, 1 << (1 + round)), left = SIZE - at;
			step = step < left ? step : left;
			assert_int_equal(write(fd, data + at, (size_t)step), step);
			at += step;
			if (round % 4 != 3) /* never told: all of it at the end */
				follower_allow(f, at);
		}
		assert_int_equal(follower_end(f, SIZE, hex, "x", NULL), 0);
		assert_string_equal(hex, expected);
		follower_free(f);
		close(fd);
	}
	free(data);
}

static void known_values(void **state)
{
	char hex[FOLLOWER_HEX];
	int fd = open_file();
	(void)state;
	follower *f = follower_new(fd, "MD5");
	assert_int_equal(follower_end(f, 0, hex, "x", NULL), 0);
	assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
	follower_free(f);
	assert_int_equal(write(fd, "abcd", 4), 4);
	f = follower_new(fd, "MD5");
	assert_int_equal(follower_end(f, 3, hex, "x", NULL), 0);
	assert_string_equal(hex, "900150983cd24fb0d6963f7d28e17f72");
	follower_free(f);
	close(fd);
}

static void what_cannot_be(void **state)
{
	char hex[FOLLOWER_HEX];
	int fd = open_file();
	(void)state;
	assert_int_equal(write(fd, "abc", 3), 3);
	follower *f = follower_new(fd, "MD5");
	follower_allow(f, 4);
	assert_int_equal(follower_end(f, 4, hex, "x", NULL), ERROR_IO);
	follower_free(f);
	f = follower_new(fd, "no such digest");
	assert_int_equal(follower_end(f, 3, hex, "x", NULL), ERROR_UNSUPPORTED);
	follower_free(f);
	/* Stopped before its end. */
	f = follower_new(fd, "MD5");
	follower_allow(f, 3);
	follower_free(f);
	follower_free(NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_it_grows),
		cmocka_unit_test(known_values),
		cmocka_unit_test(what_cannot_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
