/* What the two halves of Train/Waiting share. */
#ifndef EDGE_CORE_JOB_TRAIN_H
#define EDGE_CORE_JOB_TRAIN_H

#include "edge-agent/core/agent_internal.h"

/* This node allocates, now. */
bool train__at_waiting(const record *r);
/* The manifest of the present round's folder was looked for. */
bool train__is_looked(const job *j, const record *r);
/* A measurement is there that begins at the cursor. */
bool train__is_measured(const job *j, const record *r);

#endif
