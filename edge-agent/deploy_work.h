/* EDGE_DEPLOY: the plan of a deployment, made of what the core asks for, and where a hot-updated worker looks. */
#ifndef EDGE_DEPLOY_WORK_H
#define EDGE_DEPLOY_WORK_H

#include "edge-agent/file_work.h"

/* In the pool; the action's urls are paths of this machine already, where they are none of a store. */
int deploy_work(file_work *w);

#endif
