/* Which Secrets a node needs, and requests for their keys: credential.c, for the files of the core. */
#ifndef CLOUD_CORE_CREDENTIAL_H
#define CLOUD_CORE_CREDENTIAL_H

#include "cloud-agent/core/core.h"

/* The Secrets that a node with these roles needs for this job (whose facts are up to date, and not blocked), with their versions and urls. */
credential_need *credential_needs(const controller *c, const job *j, unsigned roles, arena *mem, size_t *n);
credential_need *credential_needs_dataset(const controller *c, const dataset *d, arena *mem, size_t *n);
/* A request; reply NULL: it does not say where its answer should go. */
int credential_asked(controller *c, const topic *t, const void *payload, size_t len, bool retained, const message_reply *reply, error *err);
bool credential_waits(const controller *c); /* something would be answered now */
bool credential_next(controller *c, cloud_action *out);
void credentials_forget(controller *c);
void credentials_fini(controller *c);

#endif
