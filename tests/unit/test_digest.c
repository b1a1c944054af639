/* SHA-256, the chain and base32 names, against values that Python's hashlib and base64 gave. */
#include "tests/unit/unit.h"

#include "common/digest.h"

enum { SIZE = 2 * CHAIN_BLOCK + 12345 };

static const struct {
	size_t size;
	const char *hex;
} chains[] = {
	{0, "0000000000000000000000000000000000000000000000000000000000000000"},
	{1, "7f9c9e31ac8256ca2f258583df262dbc7d6f68f2a03043d5c99a4ae5a7396ce9"},
	{CHAIN_BLOCK - 1, "661b9fa7bf083f7fadc341f83e65566711459e8356a7b21c84bf33ce76e3bf22"},
	{CHAIN_BLOCK, "bffddd641000f0157e76bd5622964d2bf8e796469ccf8a554366d322079bc398"},
	{CHAIN_BLOCK + 1, "6209e2204216476e671dfa87a21ec9cd6be7936fde8fdb5ea65444075cee5454"},
	{2 * CHAIN_BLOCK, "afbb827161160b95f07e06305f28f9e36ecf48d625a534990055de66656fdd6c"},
	{SIZE, "525f6a3e5660f1997593292d2035dcd7cf2dfdc3fbd815d4c976f0a90e055951"},
};
enum { CHAINS = sizeof chains / sizeof chains[0] };

static unsigned char *data; /* byte i is i * 31 + i / 251 */

static int make_data(void **state)
{
	(void)state;
	data = mem_alloc(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 31 + i / 251);
	return 0;
}

static int free_data(void **state)
{
	(void)state;
	free(data);
	return 0;
}

static void sha256_values(void **state)
{
	(void)state;
	digest d, again;
	char hex[DIGEST_HEX_SIZE];
	digest_of("abc", 3, &d);
	digest_hex(&d, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256 *s = sha256_new();
	for (int i = 0; i < 2; i++) {
		sha256_add(s, "a", 1);
		sha256_add(s, "", 0);
		sha256_add(s, "bc", 2);
		sha256_end(s, &again);
		assert_true(digest_equal(&d, &again));
	}
	sha256_free(s);
	sha256_free(NULL);
	again.b[31] ^= 1;
	assert_false(digest_equal(&d, &again));
}

static void hex_is_read_strictly(void **state)
{
	(void)state;
	digest d, back;
	char hex[DIGEST_HEX_SIZE + 1];
	digest_of("x", 1, &d);
	digest_hex(&d, hex);
	assert_int_equal(digest_parse(hex, &back), 0);
	assert_true(digest_equal(&d, &back));
	for (char *p = hex; *p != '\0'; p++)
		*p = *p >= 'a' && *p <= 'f' ? (char)(*p - 32) : *p;
	assert_int_equal(digest_parse(hex, &back), 0);
	assert_true(digest_equal(&d, &back));
	hex[64] = '0';
	hex[65] = '\0';
	assert_int_equal(digest_parse(hex, &back), ERROR_INVALID);
	hex[63] = '\0';
	assert_int_equal(digest_parse(hex, &back), ERROR_INVALID);
	assert_int_equal(digest_parse("", &back), ERROR_INVALID);
	assert_int_equal(digest_parse(NULL, &back), ERROR_INVALID);
	digest_hex(&d, hex);
	hex[10] = 'g';
	assert_int_equal(digest_parse(hex, &back), ERROR_INVALID);
	assert_true(digest_equal(&d, &back));
}

static void expect(const chain *c, size_t i)
{
	digest d;
	char hex[DIGEST_HEX_SIZE];
	chain_value(c, &d);
	digest_hex(&d, hex);
	assert_string_equal(hex, chains[i].hex);
}

static void chain_goes_on_after_each_value(void **state)
{
	(void)state;
	chain *c = chain_new();
	size_t at = 0;
	for (size_t i = 0; i < CHAINS; i++) {
		chain_add(c, data + at, chains[i].size - at);
		at = chains[i].size;
		expect(c, i);
		expect(c, i);
	}
	chain_free(c);
	chain_free(NULL);
}

static void chain_does_not_depend_on_the_pieces(void **state)
{
	(void)state;
	const size_t pieces[] = {4093, 65536, CHAIN_BLOCK - 1, CHAIN_BLOCK, CHAIN_BLOCK + 1, SIZE};
	for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
		chain *c = chain_new();
		for (size_t at = 0; at < SIZE; at += pieces[k])
			chain_add(c, data + at, SIZE - at < pieces[k] ? SIZE - at : pieces[k]);
		expect(c, CHAINS - 1);
		chain_free(c);
	}
}

static void chain_resumes_at_a_boundary(void **state)
{
	(void)state;
	chain *c = chain_new();
	uint64_t blocks;
	digest h;
	chain_add(c, data, CHAIN_BLOCK + 77);
	chain_boundary(c, &blocks, &h);
	assert_int_equal(blocks, 1);
	/* Also in a chain that has part of a block already, which is to be forgotten. */
	chain *d = chain_new();
	for (int i = 0; i < 2; i++) {
		chain_resume(d, blocks, &h);
		chain_add(d, data + CHAIN_BLOCK, SIZE - CHAIN_BLOCK);
		expect(d, CHAINS - 1);
	}
	chain_free(c);
	chain_free(d);
}

static void names_are_base32(void **state)
{
	(void)state;
	char out[80];
	digest_name("u-1/12/Train", 10, out);
	assert_string_equal(out, "fmejsigsvt");
	digest_name("u-1/12/Train", 52, out);
	assert_string_equal(out, "fmejsigsvta5hfm6ovv2jnmetg2ijnn4rd4djftty634ud6dhmda");
	digest_name("", 52, out);
	assert_string_equal(out, "4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq");
	digest_name("", 0, out);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_values),
		cmocka_unit_test(hex_is_read_strictly),
		cmocka_unit_test(chain_goes_on_after_each_value),
		cmocka_unit_test(chain_does_not_depend_on_the_pieces),
		cmocka_unit_test(chain_resumes_at_a_boundary),
		cmocka_unit_test(names_are_base32),
	};
	return cmocka_run_group_tests(tests, make_data, free_data);
}
