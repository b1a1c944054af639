/* Urls, the address of a store, and the urls of requests to it: the same bytes are signed and sent, whatever a key holds. */
#include "tests/unit/unit.h"

#include "transfer/core/location.h"
#include "transfer/core/relative.h"
#include "transfer/core/s3_url.h"

static void check_url(const char *endpoint_text, const char *location_text, const char *expected)
{
	endpoint e;
	location l;
	error err = {0};
	assert_int_equal(endpoint_parse(endpoint_text, NULL, &e, &err), 0);
	assert_int_equal(location_parse(location_text, &l, &err), 0);
	char *url = s3_url(&e, l.bucket, l.key, NULL, 0);
	assert_string_equal(url, expected);
	free(url);
	location_fini(&l);
	endpoint_fini(&e);
}

static void keys_of_all_kinds(void **state)
{
	(void)state;
	check_url("http://h", "s3://b/a b.txt", "http://h/b/a%20b.txt");
	check_url("http://h", "s3://b/a+b", "http://h/b/a%2Bb");
	check_url("http://h", "s3://b/dt=2026-01-01/x", "http://h/b/dt%3D2026-01-01/x");
	check_url("http://h", "s3://b/c~d_e.f-g", "http://h/b/c~d_e.f-g");
	check_url("http://h", "s3://b/e*f", "http://h/b/e%2Af");
	check_url("http://h", "s3://b/g(h)!'", "http://h/b/g%28h%29%21%27");
	check_url("http://h", "s3://b/i#j?k", "http://h/b/i%23j%3Fk");
	check_url("http://h", "s3://b/m%2Fn", "http://h/b/m%252Fn");
	check_url("http://h", "s3://b/o&p@q:r", "http://h/b/o%26p%40q%3Ar");
	check_url("http://h", "s3://b/ü", "http://h/b/%C3%BC");
	check_url("http://h", "s3://b//double//x", "http://h/b//double//x");
	check_url("http://h", "s3://b/trailing/", "http://h/b/trailing/");
	check_url("http://h", "s3://b/../x", "http://h/b/../x");
	check_url("http://h", "s3://b/\x01\x7f", "http://h/b/%01%7F");
}

static void keys_with_dots(void **state)
{
	(void)state;
	assert_true(s3_has_dots("."));
	assert_true(s3_has_dots("a/../b"));
	assert_true(s3_has_dots("a/.."));
	assert_true(s3_has_dots("//./"));
	assert_false(s3_has_dots("a..b/c."));
	assert_false(s3_has_dots("a/.../b"));
	assert_false(s3_has_dots(""));
}

static void key_length(void **state)
{
	char text[2048] = "s3://b/";
	location l;
	error err = {0};
	(void)state;
	memset(text + 7, 'k', KEY_MAX);
	assert_int_equal(location_parse(text, &l, &err), 0);
	assert_int_equal(strlen(l.key), KEY_MAX);
	assert_true(strlen(l.shown) < 210);
	location_fini(&l);
	text[7 + KEY_MAX] = 'k';
	assert_int_equal(location_parse(text, &l, &err), ERROR_INVALID);
	location_fini(&l);
}

static void addresses(void **state)
{
	(void)state;
	check_url("127.0.0.1:9001", "s3://b/k", "https://127.0.0.1:9001/b/k");
	check_url("minio.local:9000", "s3://my.bucket/k", "https://minio.local:9000/my.bucket/k");
	check_url("[::1]:9000", "s3://b/k", "https://[::1]:9000/b/k");
	check_url("http://minio:9000/", "s3://b/k", "http://minio:9000/b/k");
	check_url("https://minio", "s3://b/k", "https://minio/b/k");
	check_url(" http://minio:9000/ ", "s3://b/k", "http://minio:9000/b/k");
	check_url("s3.amazonaws.com", "s3://b/k", "https://b.s3.amazonaws.com/k");
	check_url("s3.amazonaws.com", "s3://my.bucket/k", "https://s3.amazonaws.com/my.bucket/k");
	check_url("s3.amazonaws.com", "s3://My_Bucket/k", "https://s3.amazonaws.com/My_Bucket/k");
	check_url("", "s3://b/k", "https://b.s3.amazonaws.com/k");
	check_url("notamazonaws.com", "s3://b/k", "https://notamazonaws.com/b/k");
}

static void addresses_refused(void **state)
{
	static const char *const bad[] = {"http://", "ftp://h", "h:", "h:0", "h:65536", "h:9x", "h/path", "http://h/path", "u:p@h",
		"http://u:secret@h", "[::1", "[x]", "::1", "h h", "https://https://h", "-h", "h?x", "h#x"};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		endpoint e;
		error err = {0};
		if (endpoint_parse(bad[i], NULL, &e, &err) != ERROR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_null(strstr(err.text, "secret"));
		endpoint_fini(&e);
	}
}

static void check_region(const char *text, const char *region, const char *expected)
{
	endpoint e;
	assert_int_equal(endpoint_parse(text, region, &e, NULL), 0);
	assert_string_equal(e.region, expected);
	endpoint_fini(&e);
}

static void regions(void **state)
{
	endpoint e;
	(void)state;
	check_region("h", NULL, "us-east-1");
	check_region("h", "", "us-east-1");
	check_region("h", "eu-west-1", "eu-west-1");
	check_region("s3.eu-west-1.amazonaws.com", NULL, "eu-west-1");
	check_region("s3-eu-west-1.amazonaws.com", NULL, "eu-west-1");
	check_region("s3.dualstack.eu-west-1.amazonaws.com", NULL, "eu-west-1");
	check_region("s3.eu-west-1.amazonaws.com", "us-west-2", "us-west-2");
	check_region("s3.amazonaws.com", NULL, "us-east-1");
	assert_int_equal(endpoint_parse("h", "a:b", &e, NULL), ERROR_INVALID);
	endpoint_fini(&e);
}

static void queries_are_sorted(void **state)
{
	const s3_query query[] = {{"uploads", NULL}, {"prefix", "a b/ü&="}, {"list-type", "2"}};
	endpoint e;
	(void)state;
	assert_int_equal(endpoint_parse("http://h:1", NULL, &e, NULL), 0);
	char *url = s3_url(&e, "b", NULL, query, 3);
	assert_string_equal(url, "http://h:1/b?list-type=2&prefix=a%20b%2F%C3%BC%26%3D&uploads=");
	free(url);
	endpoint_fini(&e);
}

static void names(void **state)
{
	static const char *const pairs[][2] = {{"s3://b/a/m.pb", "m.pb"}, {"s3://b/a/", ""}, {"s3://b", "b"}, {"s3://b/", ""},
		{"s3://b/k", "k"}, {"http://h/a/m.pb?x=1", "m.pb?x=1"}, {"http://h", ""}, {"http://h/", ""}, {"http://h/a?x=/y", "y"},
		{"s3://b/%2F", "%2F"}};
	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		location l;
		assert_int_equal(location_parse(pairs[i][0], &l, NULL), 0);
		assert_string_equal(location_name(&l), pairs[i][1]);
		location_fini(&l);
	}
}

static void http_urls(void **state)
{
	static const char *const bad[] = {"http://", "https:///x", "http://:80/x", "http://u:secret@h/x", "http://u@h", "http://h/a\nb",
		"ftp://h/x", "file:///etc/passwd", "/local", "", "s3://", "s3:///k", "s3://.b/k", "s3://a b/k", "s3://b?x/k"};
	location l;
	error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (location_parse(bad[i], &l, &err) != ERROR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_null(strstr(err.text, "secret"));
		location_fini(&l);
	}
	assert_int_equal(location_parse("http://h:1/a b/ü%20x?token=secret#f", &l, NULL), 0);
	assert_string_equal(l.url, "http://h:1/a%20b/%C3%BC%20x?token=secret#f");
	assert_string_equal(l.shown, "http://h:1/a b/ü%20x");
	location_fini(&l);
}

static void decoding(void **state)
{
	buf b = {0};
	(void)state;
	assert_int_equal(s3_decode("a%20b+c%2Bd%C3%BC", &b), 0);
	assert_string_equal(buf_text(&b), "a b c+dü");
	buf_clear(&b);
	assert_int_equal(s3_decode("a%2", &b), ERROR_INVALID);
	assert_int_equal(s3_decode("%zz", &b), ERROR_INVALID);
	assert_int_equal(s3_decode("%00", &b), ERROR_INVALID);
	buf_fini(&b);
}

static void parts(void **state)
{
	const int64_t mib = 1024 * 1024;
	(void)state;
	assert_int_equal(s3_part_size(0), 16 * mib);
	assert_int_equal(s3_part_size(160000 * mib), 16 * mib);
	assert_int_equal(s3_part_size(160000 * mib + 1), 17 * mib);
	for (int64_t size = 1; size < INT64_C(5) << 40; size = size * 3 + 1) {
		int64_t part = s3_part_size(size);
		assert_true((size + part - 1) / part <= 10000);
	}
}

static void relative_paths(void **state)
{
	static const char *const good[] = {"a", "a/b", "a//b", "a/", "..a", "a..b/c", ".hidden", "ü", "a b", "%2e%2e/x"};
	static const char *const bad[] = {"", "/", "/a", ".", "..", "a/..", "a/../b", "./a", "a/./b", "a\nb", "s3://b/k", "a\x7f"};
	char name[300];
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		if (relative_wrong(good[i]) != NULL)
			fail_msg("refused: %s", good[i]);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (relative_wrong(bad[i]) == NULL)
			fail_msg("accepted: %s", bad[i]);
	}
	memset(name, 'n', sizeof name);
	name[256] = '\0';
	assert_non_null(relative_wrong(name));
	name[255] = '\0';
	assert_null(relative_wrong(name));
}

static void links(void **state)
{
	(void)state;
	assert_true(relative_link_allowed("a/b/c", "../x"));
	assert_true(relative_link_allowed("a/b/c", "../../x"));
	assert_true(relative_link_allowed("a/b", ".."));
	assert_true(relative_link_allowed("a", "b/c"));
	assert_false(relative_link_allowed("a", "../x"));
	assert_false(relative_link_allowed("a", ".."));
	assert_false(relative_link_allowed("a//b", "../../x"));
	assert_false(relative_link_allowed("a/b/c", "../../../x"));
	assert_false(relative_link_allowed("a/b", "x/../../y"));
	assert_false(relative_link_allowed("a", "s/s/s/../../.."));
	assert_false(relative_link_allowed("a", "/etc/passwd"));
	assert_false(relative_link_allowed("a", ""));
}

static void archives(void **state)
{
	(void)state;
	assert_int_equal(archive_kind_of("s3://b/m.tar.gz", false), ARCHIVE_TAR_GZ);
	assert_int_equal(archive_kind_of("s3://b/m.tar", false), ARCHIVE_TAR);
	assert_int_equal(archive_kind_of("s3://b/m.zip", false), ARCHIVE_ZIP);
	assert_int_equal(archive_kind_of("s3://b/m.tgz", false), ARCHIVE_NONE);
	assert_int_equal(archive_kind_of("s3://b/.zip", false), ARCHIVE_NONE);
	assert_int_equal(archive_kind_of("s3://b/m.pb", false), ARCHIVE_NONE);
	assert_int_equal(archive_kind_of("http://h/m.zip?sig=1", true), ARCHIVE_ZIP);
	assert_int_equal(archive_kind_of("http://h/m?x.zip", true), ARCHIVE_NONE);
	assert_int_equal(archive_kind_of("s3://b/m?x.zip", false), ARCHIVE_ZIP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_all_kinds),
		cmocka_unit_test(keys_with_dots),
		cmocka_unit_test(key_length),
		cmocka_unit_test(addresses),
		cmocka_unit_test(addresses_refused),
		cmocka_unit_test(regions),
		cmocka_unit_test(queries_are_sorted),
		cmocka_unit_test(names),
		cmocka_unit_test(http_urls),
		cmocka_unit_test(decoding),
		cmocka_unit_test(parts),
		cmocka_unit_test(relative_paths),
		cmocka_unit_test(links),
		cmocka_unit_test(archives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
