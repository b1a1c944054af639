/* Requests for a certificate: what is taken, and what is refused with which words. */
#include "cloud-agent/enrolment/request.h"
#include "tests/unit/unit.h"

#define CSR "-----BEGIN CERTIFICATE REQUEST-----\\nx"
#define CERT "-----BEGIN CERTIFICATE-----\\nx"
#define TOKEN "0123456789abcdef"

static int decode(const char *text, enrol_request *r, error *err)
{
	return enrol_request_decode(text, strlen(text), r, NULL, err);
}

static void test_by_token(void **state)
{
	enrol_request r;
	error err = {0};

	(void)state;
	assert_int_equal(decode("{\"v\":1,\"node\":\"edge-1\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\",\"more\":{}}", &r, &err), 0);
	assert_int_equal(r.way, ENROL_BY_TOKEN);
	assert_string_equal(r.node, "edge-1");
	assert_string_equal(r.token, TOKEN);
	assert_null(r.certificate);
	enrol_request_fini(&r);
	assert_int_equal(decode("{\"v\":1,\"node\":\"edge-1\",\"csr\":\"" CSR "\",\"token\":\"aaaaaaaaa.bbbbbb.cc\"}", &r, &err), 0);
	assert_int_equal(r.way, ENROL_BY_POD);
	enrol_request_fini(&r);
}

static void test_by_certificate(void **state)
{
	enrol_request r;
	error err = {0};

	(void)state;
	assert_int_equal(decode("{\"v\":1,\"node\":\"edge-1\",\"csr\":\"" CSR "\",\"certificate\":\"" CERT "\",\"signature\":\"AAEC\"}", &r,
						 &err),
		0);
	assert_int_equal(r.way, ENROL_BY_CERTIFICATE);
	assert_int_equal(r.signature.len, 3);
	assert_memory_equal(r.signature.data, "\0\1\2", 3);
	enrol_request_fini(&r);
}

static void test_refused(void **state)
{
	static const char *const rows[][2] = {
		{"", ""},
		{"[]", ""},
		{"{\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.v"},
		{"{\"v\":2,\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.v"},
		{"{\"v\":\"1\",\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.v"},
		{"{\"v\":1,\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.node"},
		{"{\"v\":1,\"node\":7,\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.node"},
		{"{\"v\":1,\"node\":\"A\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.node"},
		{"{\"v\":1,\"node\":\"cloud\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\"}", "request.node"},
		{"{\"v\":1,\"node\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN
		 "\"}",
			"64"},
		{"{\"v\":1,\"node\":\"a\",\"token\":\"" TOKEN "\"}", "request.csr"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CERT "\",\"token\":\"" TOKEN "\"}", "request.csr"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\"}", "either"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"" TOKEN "\",\"certificate\":\"" CERT "\",\"signature\":\"AA==\"}",
			"either"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"0123456789abcde\"}", "fewer than 16"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"token\":\"0123456789 bcdef\"}", "printable"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"certificate\":\"" CERT "\"}", "request.signature"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"certificate\":\"" CERT "\",\"signature\":\"\"}", "request.signature"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"certificate\":\"" CERT "\",\"signature\":\"?\"}", "request.signature"},
		{"{\"v\":1,\"node\":\"a\",\"csr\":\"" CSR "\",\"certificate\":\"x\",\"signature\":\"AA==\"}", "request.certificate"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		enrol_request r;
		error err = {0};

		assert_int_equal(decode(rows[i][0], &r, &err), ERROR_INVALID);
		if (!strstr(err.text, rows[i][1]))
			fail_msg("%s: %s", rows[i][0], err.text);
		assert_null(r.json);
	}
}

/* Each text one above its bound; and the whole. */
static void test_bounds(void **state)
{
	static const struct {
		const char *name, *begins;
		size_t max;
	} rows[] = {{"token", "", ENROL_TOKEN_MAX}, {"csr", "-----BEGIN CERTIFICATE REQUEST-----", ENROL_PEM_MAX}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		for (size_t over = 0; over < 2; over++) {
			bool csr = strcmp(rows[i].name, "csr") == 0;
			size_t len = rows[i].max + over;
			char *text = mem_alloc(len + 1), *body;
			enrol_request r;
			error err = {0};

			memset(text, 'a', len);
			memcpy(text, rows[i].begins, strlen(rows[i].begins));
			body = mem_printf("{\"v\":1,\"node\":\"a\",\"csr\":\"%s\",\"token\":\"%s\"}", csr ? text : CSR, csr ? TOKEN : text);
			assert_int_equal(decode(body, &r, &err), over ? ERROR_INVALID : 0);
			enrol_request_fini(&r);
			free(body);
			free(text);
		}
	}
}

/* What the log may say of one that is refused: the name, if it is one. */
static void test_claim(void **state)
{
	static const char *const rows[][2] = {{"{\"node\":\"edge-1\"}", "edge-1"}, {"{\"node\":\"a\\nb\"}", ""}, {"{\"node\":3}", ""},
		{"x", ""},
		{"{\"node\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char claimed[ENROL_NAME_MAX + 1] = "before";
		enrol_request r;

		assert_int_equal(enrol_request_decode(rows[i][0], strlen(rows[i][0]), &r, claimed, NULL), ERROR_INVALID);
		assert_string_equal(claimed, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_token),
		cmocka_unit_test(test_by_certificate),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_claim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
