/* Beside the conditions, for a table with a line a job (kubectl get): where it stands, what the last evaluation said, what serves. Nothing is
 * ever decided by it. With resource definitions that do not know these members the API server drops them.
 */
#include <stdio.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"
#include "proto/metric.h"

/* "accuracy 0.93 (0.91)": the deploy trigger's metric of the new model, and of the old one where there is one. False: it has no value. */
static bool metric_text(const job_view *v, const cJSON *output, char *out, size_t size)
{
	const cJSON *models = json_member(json_member(output, "output"), "models");
	const cJSON *new_metrics = json_member(cJSON_GetArrayItem(models, 0), "metrics"),
				*old_metrics = json_member(cJSON_GetArrayItem(models, 1), "metrics");
	metric_expr e;
	double of_new, of_old;
	char index[24] = "";
	if (v->spec_error != NULL || !v->deploy.has_condition || metric_parse(v->deploy.metric, &e, NULL) != 0 ||
		metric_of(&e, new_metrics, &of_new, NULL) != 0)
		return false;
	if (e.index >= 0)
		(void)snprintf(index, sizeof index, "[%ld]", e.index);
	if (metric_of(&e, old_metrics, &of_old, NULL) == 0)
		(void)snprintf(out, size, "%.60s%s %.4g (%.4g)", e.name, index, of_new, of_old);
	else
		(void)snprintf(out, size, "%.60s%s %.4g", e.name, index, of_new);
	return true;
}

void summary_put(const job_view *v, const change *ch, cJSON *status)
{
	const step *last = ch->n > 0 ? &ch->steps[ch->n - 1] : NULL;
	const member *m = last != NULL ? &last->m : &ch->m;
	char text[160];
	if (last != NULL) {
		json_put_int(status, "round", m->round);
		json_put_string(status, "stage", stage_name(last->stage));
		json_put_string(status, "phase", phase_name(last->phase));
		/* In a merge patch null takes away. */
		json_put(status, "reason", last->reason != NULL && last->reason[0] != '\0' ? cJSON_CreateString(last->reason) : cJSON_CreateNull());
	}
	if (ch->tells)
		json_put(status, "reason", ch->reason[0] != '\0' ? cJSON_CreateString(ch->reason) : cJSON_CreateNull());
	if (m->has_deployed)
		json_put_int(status, "deployedRound", m->deployed.round);
	if (m->n_versions > 0)
		json_put(status, "deployedVersions", versions_rounds(m));
	for (size_t i = 0; i < ch->n; i++) {
		const step *s = &ch->steps[i];
		if (s->stage == STAGE_EVAL && s->phase == PHASE_COMPLETED && metric_text(v, s->output, text, sizeof text))
			json_put_string(status, "lastMetric", text);
	}
}
