/* What strangers can send to the enrolment endpoint: the request, the certificate request in it, a certificate and a signature; and a Secret or a
 * review as the API server might answer. Whatever comes, no certificate is for another name than the request's. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/enrolment/authority.h"
#include "cloud-agent/enrolment/questions.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/pki.h"
#include "tests/fuzz/enrolment_authority.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each answer to each question, with the same facts. */
static void answers(const enrol_request *r, const cJSON *object)
{
	enrol_settings settings = {.ns = "ns", .account_ns = "ns", .account_name = "edge", .prefix = "p-"};

	for (int step = ENROL_REVIEW; step <= ENROL_REMOVE; step++) {
		enrol_facts facts = {.request = r, .now_ms = 1, .mem = arena_new()};
		enrol_verdict verdict;

		enrol_question_answered(&facts, (enum enrol_step)step, 0, "", object);
		enrol_judge(&settings, &facts, &verdict);
		if (verdict.step <= ENROL_REMOVE) {
			enrol_question q;

			enrol_question_make(&settings, &facts, verdict.step, &q);
			free(q.body);
		}
		arena_free(facts.mem);
	}
}

static void sign(const authority *a, const enrol_request *r, X509_REQ *csr)
{
	authority_issued issued;
	char name[PKI_NAME_SIZE];
	X509 *cert;

	if (authority_sign(a, csr, r->node, FUZZ_NOW, 1000000, &issued, NULL) != 0)
		return;
	cert = pki_certificate_parse(buf_text(&issued.pem), issued.pem.len);
	assert(cert && pki_name(X509_get_subject_name(cert), name) && strcmp(name, r->node) == 0);
	X509_free(cert);
	buf_fini(&issued.pem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static authority *a;
	enrol_request r;
	X509_REQ *csr = NULL;
	char key[DIGEST_HEX_SIZE], claimed[ENROL_NAME_MAX + 1];
	error err = {0};

	if (!a) {
		mem_init();
		a = authority_new(fuzz_authority_cert, strlen(fuzz_authority_cert), fuzz_authority_key, strlen(fuzz_authority_key), &err);
		assert(a);
	}
	if (enrol_request_decode((const char *)data, size, &r, claimed, &err) != 0)
		return 0;
	assert(strlen(r.node) <= ENROL_NAME_MAX);
	answers(&r, r.json);
	if (authority_request(&r, &csr, key, &err) == 0)
		sign(a, &r, csr);
	X509_REQ_free(csr);
	if (r.way == ENROL_BY_CERTIFICATE)
		authority_prove(a, &r, FUZZ_NOW, &err);
	enrol_request_fini(&r);
	return 0;
}
