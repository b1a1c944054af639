/* Who gets a certificate: from what is known of a request to the next question, or to the decision. No rule of enrolment is anywhere else.
 *
 *   by certificate   proven (authority.h) -> SIGN
 *   by pod           REVIEW the token -> its POD -> SIGN
 *   by token         read the SECRET -> BIND it to the key -> SIGN;   over: REMOVE -> REFUSE
 *   any              names that are denied or reserved: REFUSE.   The API server cannot be asked: LATER
 *
 * A one-time token is bound to the first key that comes with it, so that whoever lost the answer gets another one and nobody else gets any; two
 * replicas that bind at the same time are told apart by the Secret's resourceVersion. Facts are only ever added, and each answer is asked
 * for anew with each request: nothing is remembered from one to the next. Pure; texts belong to the arena of the facts.
 */
#ifndef ENROLMENT_JUDGE_H
#define ENROLMENT_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/enrolment/request.h"
#include "common/digest.h"
#include "common/error.h"
#include "common/mem.h"

#define ENROL_AUDIENCE "ilmare-enrolment"
#define ENROL_SECRET_TYPE "ilmare/enrolment"
#define ENROL_SECRET_KEY "ilmare/enrolment-key" /* annotation: SHA-256 of the public key that it is bound to */

/* Times that binding is tried while others change the Secret. */
enum { ENROL_BINDS_MAX = 4 };

typedef struct enrol_settings {
	const char *ns;                        /* of the agent: where Secrets are */
	const char *account_ns, *account_name; /* of edge pods; NULL: no such tokens are taken */
	const char *prefix;                    /* of Secrets; NULL: no one-time tokens are taken */
	const char *denied, *reserved;         /* names, joined by newline; NULL: none */
} enrol_settings;

enum enrol_found { ENROL_NOT_ASKED, ENROL_THERE, ENROL_MISSING };

typedef struct enrol_facts {
	const enrol_request *request;
	char key[DIGEST_HEX_SIZE]; /* of the new key */
	error proof;               /* by certificate: code 0 if it was proven, else why not */
	int64_t now_ms;            /* since 1970 */
	arena *mem;                /* of what follows */

	error trouble; /* the API server could not be asked */
	struct {
		bool known, authenticated, audience;
		const char *user, *pod, *uid, *error; /* "" if not said */
	} review;
	struct {
		enum enrol_found found;
		const char *uid, *node;
		bool ended;
	} pod;
	struct {
		enum enrol_found found;
		const char *type, *node, *sha256, *key, *uid, *version; /* "" if there is none */
		int64_t expires_ms;                                     /* 0: not said, or no time */
	} secret;
	bool bound, removed;
	int binds;
} enrol_facts;

enum enrol_step { ENROL_REVIEW, ENROL_POD, ENROL_SECRET, ENROL_BIND, ENROL_REMOVE, ENROL_SIGN, ENROL_REFUSE, ENROL_LATER };

typedef struct enrol_verdict {
	enum enrol_step step;
	int status;       /* of REFUSE and LATER */
	const char *text; /* of them: for who asked, and for the log */
} enrol_verdict;

void enrol_judge(const enrol_settings *s, const enrol_facts *f, enrol_verdict *out);
/* `cloud` and `broker`, in any installation. */
bool enrol_name_reserved(const char *name);

#endif
