/* /metrics of the cloud agent: the core's counters and the link's, as Prometheus reads them. */
#ifndef CLOUD_OBSERVE_H
#define CLOUD_OBSERVE_H

#include "cloud-agent/core/controller.h"
#include "cloud-agent/enrolment/service.h"
#include "common/buf.h"
#include "common/certificate_ends.h"
#include "common/mqtt/mqtt.h"

void observe_print(const controller *core, const mqtt_client *mqtt, const enrolment *e, certificate_ends *ends, buf *out);

#endif
