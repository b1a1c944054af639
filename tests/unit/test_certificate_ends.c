/* When certificates end: what is said of good files, and that nothing is said of others. */
#include "tests/unit/unit.h"

#include <sys/stat.h>

#include "common/certificate_ends.h"
#include "common/file.h"
#include "common/metrics.h"
#include "common/pki.h"

/* One that ends then, signed by itself: who signs is of no interest here. */
static char *certificate(time_t ends)
{
	EVP_PKEY *key = pki_key_new(NULL);
	X509 *cert = X509_new();
	buf text = {0};

	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	ASN1_TIME_set(X509_getm_notBefore(cert), ends - 1);
	ASN1_TIME_set(X509_getm_notAfter(cert), ends);
	X509_set_pubkey(cert, key);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_int_equal(pki_certificate_print(cert, &text, NULL), 0);
	X509_free(cert);
	EVP_PKEY_free(key);
	return buf_detach(&text);
}

static int64_t end_of(enum certificate_kind kind, const char *text)
{
	return certificate_end(kind, text, strlen(text));
}

static void test_of_a_text(void **state)
{
	char *one = certificate(2000000000), *two = certificate(2100000000), *far = certificate(4102444800);
	char *both = mem_printf("%s%s", two, one), *turned = mem_printf("%s%s", one, two), *cut = mem_strndup(one, strlen(one) / 2),
		 *half = mem_printf("%s%s", one, cut);

	(void)state;
	assert_int_equal(end_of(CERTIFICATE_OWN, one), 2000000000);
	assert_int_equal(end_of(CERTIFICATE_OWN, far), 4102444800);
	assert_int_equal(end_of(CERTIFICATE_OWN, both), 2100000000);
	assert_int_equal(end_of(CERTIFICATE_AUTHORITIES, one), 2000000000);
	assert_int_equal(end_of(CERTIFICATE_AUTHORITIES, both), 2100000000);
	assert_int_equal(end_of(CERTIFICATE_OWN, turned), 2000000000);
	assert_int_equal(end_of(CERTIFICATE_AUTHORITIES, turned), 2100000000);
	const enum certificate_kind kinds[] = {CERTIFICATE_OWN, CERTIFICATE_AUTHORITIES};
	for (size_t i = 0; i < 2; i++) {
		enum certificate_kind kind = kinds[i];

		assert_int_equal(end_of(kind, ""), 0);
		assert_int_equal(end_of(kind, "nonsense"), 0);
		assert_int_equal(end_of(kind, cut), 0);
		assert_int_equal(end_of(kind, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"), 0);
	}
	assert_int_equal(end_of(CERTIFICATE_AUTHORITIES, half), 0);
	free(one);
	free(two);
	free(far);
	free(both);
	free(turned);
	free(cut);
	free(half);
}

static bool prints(certificate_ends *c, const char *line)
{
	buf out = {0};
	bool found;

	certificate_ends_set(c);
	metrics_print(&out);
	found = strstr(buf_text(&out), line) != NULL;
	buf_fini(&out);
	return found;
}

static void put(const char *path, const char *text)
{
	assert_int_equal(file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void test_of_a_file(void **state)
{
	char *folder = unit_folder(), *path = mem_printf("%s/node.pem", folder), *one = certificate(2000000000), *two = certificate(2100000000);
	certificate_ends *c = certificate_ends_new();
	const char *any = "ilmare_certificate_expiry_timestamp_seconds";

	(void)state;
	certificate_ends_add(c, CERTIFICATE_OWN, "which=\"client\"", path);
	certificate_ends_add(c, CERTIFICATE_AUTHORITIES, "which=\"authority\"", NULL);
	assert_false(prints(c, any));
	put(path, one);
	assert_true(prints(c, "\nilmare_certificate_expiry_timestamp_seconds{which=\"client\"} 2000000000\n"));
	assert_false(prints(c, "authority"));
	put(path, two);
	assert_true(prints(c, "{which=\"client\"} 2100000000\n"));
	assert_true(prints(c, "{which=\"client\"} 2100000000\n"));

	/* What is none says nothing, and not what the one before said. */
	put(path, "nonsense");
	assert_false(prints(c, any));
	put(path, one);
	assert_true(prints(c, "} 2000000000\n"));
	assert_int_equal(unlink(path), 0);
	assert_false(prints(c, any));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(prints(c, any));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_false(prints(c, any));
	assert_int_equal(rmdir(path), 0);
	put(path, one);
	assert_int_equal(truncate(path, PKI_FILE_MAX + 1), 0);
	assert_false(prints(c, any));
	put(path, two);
	assert_true(prints(c, "} 2100000000\n"));

	certificate_ends_free(c);
	free(one);
	free(two);
	free(path);
	unit_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_a_text),
		cmocka_unit_test(test_of_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
