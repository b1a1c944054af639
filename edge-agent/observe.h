/* /metrics of the edge agent: the core's counters and the link's, as Prometheus reads them. */
#ifndef EDGE_OBSERVE_H
#define EDGE_OBSERVE_H

#include "common/buf.h"
#include "common/certificate_ends.h"
#include "common/mqtt/mqtt.h"
#include "edge-agent/core/agent.h"
#include "edge-agent/enrolment.h"

void observe_print(const edge_agent *agent, const mqtt_client *mqtt, const enrolment *e, certificate_ends *ends, buf *out);

#endif
