/* Addresses that can be listened on, and urls that workers can report to. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "common/http/endpoint.h"

static void hosts(void **state)
{
	static const char *const good[] = {"127.0.0.1", "0.0.0.0", "::1", "::", "fe80::1"};
	static const char *const bad[] = {"", "nohost", "localhost", "127.0.0", "127.0.0.1:80", "[::1]", "1", "::g", " 127.0.0.1"};
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_true(endpoint_host_valid(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(endpoint_host_valid(bad[i]));
	assert_false(endpoint_host_valid(NULL));
}

static void loopback(void **state)
{
	static const char *const inside[] = {"127.0.0.1", "127.255.0.9", "::1"};
	static const char *const outside[] = {"0.0.0.0", "128.0.0.1", "10.0.0.1", "::", "fe80::1", "::ffff:192.0.2.1", "localhost"};
	(void)state;
	for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
		assert_true(endpoint_host_loopback(inside[i]));
	for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
		assert_false(endpoint_host_loopback(outside[i]));
}

static void urls(void **state)
{
	static const char *const good[] = {"http://localhost:9100", "https://edge.example", "http://127.0.0.1:1/", "http://[::1]:65535",
		"https://e-1.example:443/some/path", "http://e_1"};
	static const char *const bad[] = {"", "nourl", "not a url", "localhost:9100", "ftp://x", "http", "http:", "http://", "http:///x",
		"http://:9100", "http://x:", "http://x:0", "http://x:65536", "http://x:123456", "http://x:9100x", "http://a b", "http://a/b c",
		"http://u:p@x", "http://u@x", "http://x?q", "http://x/?q", "http://x/#f", "http://[::1", "http://[x]", "http://::1:80", "http://-x",
		"HTTP://x", "http://x\n", " http://x"};
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		if (!endpoint_url_valid(good[i]))
			fail_msg("refused: %s", good[i]);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (endpoint_url_valid(bad[i]))
			fail_msg("accepted: %s", bad[i]);
	}
	assert_false(endpoint_url_valid(NULL));
}

static void zones(void **state)
{
	char *folder = unit_folder(), *file = mem_printf("%s/Here", folder), *not = mem_printf("%s/Text", folder);
	(void)state;
	assert_int_equal(file_write(file, "TZif2", 5, 0600, NULL), 0);
	assert_int_equal(file_write(not, "text", 4, 0600, NULL), 0);
	setenv("TZDIR", folder, 1);
	assert_true(clock_zone_exists("Here"));
	assert_true(clock_zone_exists("UTC"));
	assert_false(clock_zone_exists("There"));
	assert_false(clock_zone_exists("Text"));
	assert_false(clock_zone_exists("."));
	assert_false(clock_zone_exists(""));
	assert_false(clock_zone_exists("../Here"));
	assert_false(clock_zone_exists(file));
	unsetenv("TZDIR");
	free(file);
	free(not );
	unit_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts),
		cmocka_unit_test(loopback),
		cmocka_unit_test(urls),
		cmocka_unit_test(zones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
