/* See judge.h for the contract. */
#include "cloud-agent/enrolment/judge.h"

#include <string.h>

#include "proto/topic.h"

bool enrol_name_reserved(const char *name)
{
	return strcmp(name, PRESENCE_CLOUD) == 0 || strcmp(name, "broker") == 0;
}

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strcspn(p, "\n") == len && strncmp(p, name, len) == 0)
			return true;
	}
	return false;
}

static void refuse(enrol_verdict *out, const char *text)
{
	*out = (enrol_verdict){.step = ENROL_REFUSE, .status = 403, .text = text};
}

static void go(enrol_verdict *out, enum enrol_step step)
{
	*out = (enrol_verdict){.step = step};
}

/* ---- a service account's token ---- */

static const char *wrong_review(const enrol_settings *s, const enrol_facts *f)
{
	char *user;

	if (!f->review.authenticated)
		return arena_printf(f->mem, "the API server does not accept the token%s%.200s", f->review.error[0] ? ": " : "", f->review.error);
	if (!f->review.audience)
		return "the token is not for the audience " ENROL_AUDIENCE;
	user = arena_printf(f->mem, "system:serviceaccount:%s:%s", s->account_ns, s->account_name);
	if (strcmp(user, f->review.user) != 0)
		return arena_printf(f->mem, "the token is of %.200s, not of the edge agents' service account", f->review.user);
	if (!f->review.pod[0] || !f->review.uid[0])
		return "the token is not bound to a pod: it has to be a projected one";
	return NULL;
}

static const char *wrong_pod(const enrol_facts *f)
{
	if (f->pod.found == ENROL_MISSING || strcmp(f->pod.uid, f->review.uid) != 0)
		return arena_printf(f->mem, "the token's pod %s is gone", f->review.pod);
	if (f->pod.ended)
		return arena_printf(f->mem, "the token's pod %s has ended or is being deleted", f->review.pod);
	if (strcmp(f->pod.node, f->request->node) != 0)
		return arena_printf(f->mem, "the token's pod %s is on node \"%s\"; it gets a certificate for no other", f->review.pod, f->pod.node);
	return NULL;
}

static void by_pod(const enrol_settings *s, const enrol_facts *f, enrol_verdict *out)
{
	const char *wrong;

	if (!s->account_name) {
		refuse(out, "no tokens of service accounts are taken here (enrolment.serviceAccount)");
	} else if (!f->review.known) {
		go(out, ENROL_REVIEW);
	} else if ((wrong = wrong_review(s, f)) != NULL) {
		refuse(out, wrong);
	} else if (f->pod.found == ENROL_NOT_ASKED) {
		go(out, ENROL_POD);
	} else if ((wrong = wrong_pod(f)) != NULL) {
		refuse(out, wrong);
	} else {
		go(out, ENROL_SIGN);
	}
}

/* ---- a one-time token ---- */

/* All bytes are looked at, however they differ. */
static bool token_fits(const enrol_facts *f)
{
	digest given, kept;
	unsigned differ = 0;

	if (digest_parse(f->secret.sha256, &kept) != 0)
		return false;
	digest_of(f->request->token, strlen(f->request->token), &given);
	for (size_t i = 0; i < DIGEST_SIZE; i++)
		differ |= (unsigned)(given.b[i] ^ kept.b[i]);
	return differ == 0;
}

/* Of one that is not right nothing is told. */
static const char *no_token(const enrol_facts *f)
{
	return arena_printf(f->mem, "the token is none of node %s, or no longer; scripts/enroll-node makes a new one", f->request->node);
}

static void by_secret(const enrol_facts *f, enrol_verdict *out)
{
	bool ours =
		f->secret.found == ENROL_THERE && strcmp(f->secret.type, ENROL_SECRET_TYPE) == 0 && strcmp(f->secret.node, f->request->node) == 0;

	if (ours && f->secret.expires_ms <= f->now_ms && !f->removed)
		go(out, ENROL_REMOVE);
	else if (!ours || !token_fits(f))
		refuse(out, no_token(f));
	else if (f->secret.expires_ms <= f->now_ms)
		refuse(out, "the token's time is over; scripts/enroll-node makes a new one");
	else if (f->secret.key[0] && strcmp(f->secret.key, f->key) != 0)
		refuse(out, "the token was used with another key already; scripts/enroll-node makes a new one");
	else if (f->secret.key[0] || f->bound)
		go(out, ENROL_SIGN);
	else if (f->binds >= ENROL_BINDS_MAX)
		*out = (enrol_verdict){.step = ENROL_LATER, .status = 503, .text = "the token's Secret changes all the time; try again"};
	else
		go(out, ENROL_BIND);
}

static void by_token(const enrol_settings *s, const enrol_facts *f, enrol_verdict *out)
{
	if (!s->prefix)
		refuse(out, "no one-time tokens are taken here (enrolment.secretPrefix)");
	else if (f->secret.found == ENROL_NOT_ASKED)
		go(out, ENROL_SECRET);
	else
		by_secret(f, out);
}

void enrol_judge(const enrol_settings *s, const enrol_facts *f, enrol_verdict *out)
{
	const char *node = f->request->node;

	if (enrol_name_reserved(node) || listed(s->reserved, node)) {
		refuse(out, arena_printf(f->mem, "the name %s is not for a device", node));
	} else if (listed(s->denied, node)) {
		refuse(out, arena_printf(f->mem, "node %s is denied (enrolment.denied)", node));
	} else if (f->trouble.code != 0) {
		*out = (enrol_verdict){.step = ENROL_LATER, .status = 503, .text = "the cluster cannot be asked now; try again"};
	} else if (f->request->way == ENROL_BY_POD) {
		by_pod(s, f, out);
	} else if (f->request->way == ENROL_BY_TOKEN) {
		by_token(s, f, out);
	} else if (f->proof.code != 0) {
		refuse(out, f->proof.text);
	} else {
		go(out, ENROL_SIGN);
	}
}
