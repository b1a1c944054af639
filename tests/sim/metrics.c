/* What evaluations tell of models, and what a deploy trigger has to make of it.
 *
 * A model has one quality, which its content decides. It is told as a number or as a list, alone or among many others, as accuracy or as loss;
 * what the answer to a trigger must be is worked out from the quality alone, without the code that is tested.
 */
#include <math.h>
#include <stdio.h>

#include "common/json.h"
#include "tests/sim/sim.h"

enum { MANY = 60 };

static const metric_rule rules[] = {
	{.metric = "accuracy_delta", .op = ">", .delta = true, .part = 1},
	{.metric = "accuracy", .op = ">=", .part = 1},
	{.metric = "loss_delta", .op = "<", .lower = true, .delta = true, .part = 1},
	{.metric = "accuracy_delta", .op = "gt", .list = true, .delta = true, .part = 0.75},
	{.metric = "accuracy[1]", .op = ">", .list = true, .part = 0.5},
	{.metric = "loss_delta[0]", .op = "<=", .list = true, .lower = true, .delta = true, .part = 1},
};

const metric_rule *metric_rule_first(void)
{
	return &rules[0];
}

const metric_rule *metric_rule_random(world *w)
{
	return &rules[chance(w, 0.4) ? 0 : rnd(w) % (sizeof(rules) / sizeof(rules[0]))];
}

double rule_threshold(const job_setup *j)
{
	return j->rule->lower ? -j->deploy_threshold : j->deploy_threshold;
}

static void put_value(cJSON *metrics, const char *name, double value, bool list)
{
	cJSON *entries;

	if (!list) {
		json_put_double(metrics, name, value);
		return;
	}
	entries = cJSON_CreateArray();
	cJSON_AddItemToArray(entries, cJSON_CreateNumber(value));
	cJSON_AddItemToArray(entries, cJSON_CreateNumber(value / 2));
	json_put(metrics, name, entries);
}

cJSON *metrics_of(const job_setup *j, double quality, bool odd)
{
	cJSON *metrics;
	char name[32];

	if (odd)
		return j->train_threshold % 2 == 0 ? cJSON_CreateString("very good") : NULL;
	metrics = cJSON_CreateObject();
	for (int i = 0; j->many_metrics && i < MANY; i++) {
		snprintf(name, sizeof(name), "class_%d_of_the_set", i);
		json_put_double(metrics, name, quality / (i + 1));
	}
	put_value(metrics, "accuracy", quality, j->rule->list);
	put_value(metrics, "loss", 1 - quality, j->rule->list);
	return metrics;
}

int metrics_answer(const job_setup *j, double fresh, double old)
{
	const metric_rule *r = j->rule;
	double better = fresh * r->part, worse = r->delta ? old * r->part : 0, gain;

	if (r->lower) {
		better = (1 - fresh) * r->part;
		worse = r->delta ? (1 - old) * r->part : 0;
	}
	gain = better - worse - rule_threshold(j);
	if (fabs(gain) < 1e-5)
		return -1;
	return (r->lower ? gain < 0 : gain > 0) ? 1 : 0;
}
