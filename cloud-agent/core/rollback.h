/* What a job can go back to, and going back. See the heads of versions.c and rollback.c. */
#ifndef CLOUD_CORE_ROLLBACK_H
#define CLOUD_CORE_ROLLBACK_H

#include "cloud-agent/core/core.h"

/* ---- versions.c ---- */

const kept_version *version_find(const member *m, int64_t round); /* NULL: it is not kept */
char *versions_text(arena *mem, const member *m);                 /* "0, 3, 6"; "" if there are none */
cJSON *versions_rounds(const member *m);                          /* [6, 3, 0] */
void versions_read(arena *mem, const cJSON *obj, member *m);
void versions_put(const member *m, cJSON *obj);
/* Into the change, if the report tells them. */
void versions_take(const job *j, const report *r, change *ch);

/* ---- rollback.c ---- */

/* Take, decide or clean up; true: a flight was planned. */
bool rollback_plan(controller *c, job *j);
void rollback_annotated(controller *c, job *j, int code, const char *text, int64_t retry_after_ms);
const char *rollback_message(arena *mem, const member *m);

#endif
