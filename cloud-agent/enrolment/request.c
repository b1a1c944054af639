/* See request.h for the contract. */
#include "cloud-agent/enrolment/request.h"

#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "proto/topic.h"

#define PEM_REQUEST "-----BEGIN CERTIFICATE REQUEST-----"
#define PEM_CERTIFICATE "-----BEGIN CERTIFICATE-----"

const char *enrol_way_word(enum enrol_way way)
{
	static const char *const words[] = {[ENROL_BY_POD] = "pod", [ENROL_BY_TOKEN] = "token", [ENROL_BY_CERTIFICATE] = "certificate"};

	return words[way];
}

static int need(const cJSON *json, const char *name, size_t max, const char **out, error *err)
{
	int found = json_get_string(json, "request", name, out, err);

	if (found < 0)
		return found;
	if (found == 0)
		return error_set(err, ERROR_INVALID, "request.%s is missing", name);
	return strlen(*out) <= max ? 0 : error_set(err, ERROR_INVALID, "request.%s has more than %zu characters", name, max);
}

static int need_pem(const cJSON *json, const char *name, const char *begins, const char **out, error *err)
{
	int code = need(json, name, ENROL_PEM_MAX, out, err);

	if (code == 0 && strncmp(*out, begins, strlen(begins)) != 0)
		return error_set(err, ERROR_INVALID, "request.%s does not begin with %s", name, begins);
	return code;
}

static int take_node(const cJSON *json, enrol_request *r, error *err)
{
	int code = need(json, "node", NAME_MAX_NAME, &r->node, err);

	if (code != 0)
		return code;
	if (!name_valid_node(r->node))
		return error_set(err, ERROR_INVALID, "request.node is no node's name");
	if (strlen(r->node) > ENROL_NAME_MAX)
		return error_set(err, ERROR_INVALID, "request.node has more than %d characters, for which a certificate has no room",
			ENROL_NAME_MAX);
	return 0;
}

/* A service account's token is a JWT, three parts joined by points; a one-time token has none. */
static int take_token(const cJSON *json, enrol_request *r, error *err)
{
	int code = need(json, "token", ENROL_TOKEN_MAX, &r->token, err);

	if (code != 0)
		return code;
	for (const char *p = r->token; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return error_set(err, ERROR_INVALID, "request.token holds what is no printable character");
	if (strlen(r->token) < ENROL_TOKEN_MIN)
		return error_set(err, ERROR_INVALID, "request.token has fewer than %d characters", ENROL_TOKEN_MIN);
	r->way = strchr(r->token, '.') ? ENROL_BY_POD : ENROL_BY_TOKEN;
	return 0;
}

static int take_certificate(const cJSON *json, enrol_request *r, error *err)
{
	const char *coded = NULL;
	int code = need_pem(json, "certificate", PEM_CERTIFICATE, &r->certificate, err);

	if (code == 0)
		code = need(json, "signature", (size_t)2 * ENROL_SIGNATURE_MAX, &coded, err);
	if (code != 0)
		return code;
	if (base64_decode(coded, &r->signature) != 0 || r->signature.len == 0 || r->signature.len > ENROL_SIGNATURE_MAX)
		return error_set(err, ERROR_INVALID, "request.signature is not the base64 of a signature");
	r->way = ENROL_BY_CERTIFICATE;
	return 0;
}

static int take(const cJSON *json, enrol_request *r, error *err)
{
	bool token = json_member(json, "token") != NULL, certificate = json_member(json, "certificate") != NULL;
	int64_t version;
	int found = json_get_int(json, "request", "v", 1, JSON_MAX_INT, &version, err), code;

	if (found < 0)
		return found;
	if (found == 0 || version != 1)
		return error_set(err, ERROR_INVALID, "request.v is not 1: this agent knows no other version");
	code = take_node(json, r, err);
	if (code == 0)
		code = need_pem(json, "csr", PEM_REQUEST, &r->csr, err);
	if (code != 0)
		return code;
	if (token == certificate)
		return error_set(err, ERROR_INVALID, "the request needs either a token or a certificate with a signature");
	return token ? take_token(json, r, err) : take_certificate(json, r, err);
}

static void note_claim(const cJSON *json, char claimed[ENROL_NAME_MAX + 1])
{
	const char *name = cJSON_GetStringValue(json_member(json, "node"));

	snprintf(claimed, ENROL_NAME_MAX + 1, "%s", name && name_valid(name) ? name : "");
}

int enrol_request_decode(const char *body, size_t len, enrol_request *out, char claimed[ENROL_NAME_MAX + 1], error *err)
{
	int code;

	*out = (enrol_request){0};
	if (claimed)
		claimed[0] = 0;
	code = json_parse(body, len, ENROL_BODY_MAX, &out->json, err);
	if (code == 0 && claimed)
		note_claim(out->json, claimed);
	if (code == 0)
		code = take(out->json, out, err);
	if (code != 0)
		enrol_request_fini(out);
	return code != 0 ? ERROR_INVALID : 0;
}

void enrol_request_fini(enrol_request *r)
{
	json_wipe(r->json);
	buf_fini(&r->signature);
	*r = (enrol_request){0};
}
