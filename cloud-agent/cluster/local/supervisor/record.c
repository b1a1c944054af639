/* The status file: see record.h. The supervisor's working folder is the worker's. */
#include "cloud-agent/cluster/local/supervisor/record.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/file.h"
#include "common/json.h"

void record_stamp(char out[32])
{
	time_t now = time(NULL);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

int record_write(const record *r, error *err)
{
	cJSON *status = cJSON_CreateObject();
	json_put_int(status, "v", 1);
	json_put_string(status, "state", r->state);
	json_put_int(status, "restarts", r->restarts);
	json_put_bool(status, "stopped", r->stopped);
	json_put_string(status, "fetch", r->fetch);
	if (strcmp(r->state, WORKER_RUNNING) == 0)
		json_put_string(status, "startedAt", r->started);
	if (strcmp(r->state, WORKER_WAITING) == 0)
		json_put_int(status, "backoffMs", r->backoff_ms);
	if (r->has_last) {
		cJSON *last = cJSON_CreateObject();
		json_put_int(last, "exitCode", r->last_code);
		json_put_int(last, "signal", r->last_signal);
		json_put_string(last, "reason", r->last_reason);
		json_put_string(last, "message", r->last_message);
		json_put_string(last, "startedAt", r->last_started);
		json_put_string(last, "finishedAt", r->last_finished);
		json_put(status, "last", last);
	}
	char *text = json_print(status);
	int code = file_write(WORKER_STATUS, text, strlen(text), 0600, err);
	free(text);
	cJSON_Delete(status);
	return code;
}
