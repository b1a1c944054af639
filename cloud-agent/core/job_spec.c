/* A job's spec as C fields. The first thing that is wrong is told with its path ("spec.trainSpec.trigger.condition.operator: …"); such a job
 * waits with reason InvalidSpec, and goes on as soon as its spec is mended. Members that are not known here are left to others.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "common/path.h"
#include "proto/metric.h"

#define METRIC_SAMPLES "num_of_samples"
enum { POLL_DEFAULT_S = 60, POLL_MAX_S = 366 * 86400 };

static int missing(error *err, const char *where, const char *name)
{
	return error_set(err, ERROR_INVALID, "%s.%s: is missing", where, name);
}

static int need_object(const cJSON *obj, const char *where, const char *name, const cJSON **out, error *err)
{
	int found = json_get_object(obj, where, name, out, err);
	return found == 0 ? missing(err, where, name) : found < 0 ? found : 0;
}

/* The `name` of a reference to an object. */
static int need_ref(const cJSON *obj, const char *where, const char *name, const char **out, error *err)
{
	const cJSON *ref;
	int code = need_object(obj, where, name, &ref, err);
	if (code != 0)
		return code;
	char *path = mem_printf("%s.%s", where, name);
	int found = json_get_string(ref, path, "name", out, err);
	if (found == 0)
		code = missing(err, path, "name");
	else if (found < 0)
		code = found;
	else if (!name_valid(*out))
		code = error_set(err, ERROR_INVALID, "%s.name: '%.80s' is not a name", path, *out);
	free(path);
	return code;
}

static int need_template(const cJSON *obj, const char *where, const cJSON **out, error *err)
{
	const cJSON *template, *spec, *containers;
	int code = need_object(obj, where, "template", &template, err);
	if (code != 0)
		return code;
	char *path = mem_printf("%s.template", where);
	code = need_object(template, path, "spec", &spec, err);
	if (code == 0) {
		int found = json_get_array(spec, path, "containers", &containers, err);
		if (found < 0)
			code = found;
		else if (found == 0 || containers->child == NULL)
			code = error_set(err, ERROR_INVALID, "%s.spec.containers: needs a container", path);
	}
	free(path);
	*out = template;
	return code;
}

static int need_trigger(arena *mem, const cJSON *obj, const char *where, trigger *out, error *err)
{
	const cJSON *trigger_object;
	int code = need_object(obj, where, "trigger", &trigger_object, err);
	if (code != 0)
		return code;
	char *path = arena_printf(mem, "%s.trigger", where);
	return trigger_decode(mem, trigger_object, path, out, err);
}

static int read_train(job_view *v, const cJSON *spec, error *err)
{
	const cJSON *o;
	int code = need_object(spec, "spec", "trainSpec", &o, err);
	if (code == 0)
		code = need_template(o, "spec.trainSpec", &v->train_template, err);
	if (code == 0)
		code = need_trigger(v->mem, o, "spec.trainSpec", &v->train, err);
	if (code == 0 && v->train.has_condition && (v->train.metric == NULL || strcmp(v->train.metric, METRIC_SAMPLES) != 0))
		return error_set(err, ERROR_INVALID, "spec.trainSpec.trigger.condition.metric: must be " METRIC_SAMPLES);
	return code;
}

static int read_eval(job_view *v, const cJSON *spec, error *err)
{
	const cJSON *o, *ref;
	int code = need_object(spec, "spec", "evalSpec", &o, err);
	if (code == 0)
		code = need_template(o, "spec.evalSpec", &v->eval_template, err);
	if (code != 0)
		return code;
	int found = json_get_object(o, "spec.evalSpec", "initialEvalModel", &ref, err);
	if (found <= 0)
		return found;
	/* Sedna's own objects hold an empty name where none is meant. */
	if (object_text(o, "initialEvalModel", "name")[0] == '\0')
		return 0;
	return need_ref(o, "spec.evalSpec", "initialEvalModel", &v->eval_model, err);
}

static int read_deploy_model(job_view *v, const cJSON *deploy, error *err)
{
	int code = need_ref(deploy, "spec.deploySpec", "model", &v->deploy_model, err);
	if (code != 0)
		return code;
	const cJSON *ref = json_member(deploy, "model");
	code = json_get_bool(ref, "spec.deploySpec.model", "hotUpdateEnabled", &v->hot, err);
	if (code < 0)
		return code;
	v->poll_s = POLL_DEFAULT_S;
	code = json_get_int(ref, "spec.deploySpec.model", "pollPeriodSeconds", 1, POLL_MAX_S, &v->poll_s, err);
	return code < 0 ? code : 0;
}

static int read_deploy(job_view *v, const cJSON *spec, error *err)
{
	const cJSON *o, *mining;
	metric_expr expr;
	int code = need_object(spec, "spec", "deploySpec", &o, err);
	if (code == 0)
		code = read_deploy_model(v, o, err);
	if (code == 0)
		code = need_template(o, "spec.deploySpec", &v->deploy_template, err);
	if (code == 0)
		code = need_trigger(v->mem, o, "spec.deploySpec", &v->deploy, err);
	if (code != 0)
		return code;
	if (v->deploy.has_condition && metric_parse(v->deploy.metric, &expr, err) != 0)
		return error_prefix(err, "spec.deploySpec.trigger.condition");
	code = json_get_object(o, "spec.deploySpec", "hardExampleMining", &mining, err);
	if (code <= 0)
		return code;
	code = json_get_string(mining, "spec.deploySpec.hardExampleMining", "name", &v->hem_name, err);
	if (code < 0)
		return code;
	code = json_get_array(mining, "spec.deploySpec.hardExampleMining", "parameters", &v->hem_parameters, err);
	return code < 0 ? code : 0;
}

static int read_dataset(job_view *v, const cJSON *spec, error *err)
{
	int code = need_ref(spec, "spec", "dataset", &v->dataset, err);
	if (code != 0)
		return code;
	int found = json_get_double(json_member(spec, "dataset"), "spec.dataset", "trainProb", &v->train_prob, err);
	if (found == 0)
		return missing(err, "spec.dataset", "trainProb");
	if (found < 0)
		return found;
	if (v->train_prob < 0 || v->train_prob > 1)
		return error_set(err, ERROR_INVALID, "spec.dataset.trainProb: %g is not between 0 and 1", v->train_prob);
	return 0;
}

static int read_output_dir(job_view *v, const cJSON *spec, error *err)
{
	int found = json_get_string(spec, "spec", "outputDir", &v->output_dir, err);
	if (found <= 0)
		return found == 0 ? missing(err, "spec", "outputDir") : found;
	if (v->output_dir[0] != '/' && strncmp(v->output_dir, "s3://", 5) != 0)
		return error_set(err, ERROR_INVALID, "spec.outputDir: '%.120s' is neither a path from the root nor an s3:// url", v->output_dir);
	if (strlen(v->output_dir) > TEXT_MAX_URL)
		return error_set(err, ERROR_INVALID, "spec.outputDir: is longer than %d bytes", TEXT_MAX_URL);
	size_t len = strlen(v->output_dir);
	while (len > 1 && v->output_dir[len - 1] == '/')
		len--;
	v->output_dir = arena_strndup(v->mem, v->output_dir, len);
	if (!url_is_remote(v->output_dir) && !path_is_clean(v->output_dir))
		return error_set(err, ERROR_INVALID, "spec.outputDir: '%.120s' is not plain: it has an empty part, '.' or '..', or ends in a blank",
			v->output_dir);
	int code = json_get_string(spec, "spec", "credentialName", &v->credential, err);
	if (code < 0)
		return code;
	if (v->credential != NULL && v->credential[0] == '\0')
		v->credential = NULL;
	return 0;
}

static int read_annotations(job_view *v, const cJSON *object, error *err)
{
	const cJSON *annotations = json_member(json_member(object, "metadata"), "annotations");
	const char *text = NULL;
	int found = json_get_string(annotations, "metadata.annotations", ANNOTATION_REFUSED, &text, err);
	if (found != 0)
		return found < 0 ? found : error_set(err, ERROR_INVALID, "%s", text);
	found = json_get_string(annotations, "metadata.annotations", ANNOTATION_RETRAIN, &text, err);
	if (found < 0)
		return found;
	if (text == NULL || strcmp(text, "better") == 0)
		v->retrain = RETRAIN_BETTER;
	else if (strcmp(text, "last") == 0)
		v->retrain = RETRAIN_LAST;
	else if (strcmp(text, "deployed") == 0)
		v->retrain = RETRAIN_DEPLOYED;
	else
		return error_set(err, ERROR_INVALID, "metadata.annotations." ANNOTATION_RETRAIN ": '%.40s' is none of better, last, deployed",
			text);
	text = NULL;
	found = json_get_string(annotations, "metadata.annotations", ANNOTATION_FIRST, &text, err);
	if (found < 0)
		return found;
	if (text != NULL && strcmp(text, "end") != 0 && strcmp(text, "begin") != 0)
		return error_set(err, ERROR_INVALID, "metadata.annotations." ANNOTATION_FIRST ": '%.40s' is neither begin nor end", text);
	v->first_sample_end = text != NULL && strcmp(text, "end") == 0;
	return 0;
}

void job_spec_read(job_view *v, const cJSON *object)
{
	error err = {0};
	const cJSON *spec = NULL;
	int code = need_object(object, "the job", "spec", &spec, &err);
	if (code == 0)
		code = read_dataset(v, spec, &err);
	if (code == 0)
		code = need_ref(spec, "spec", "initialModel", &v->initial_model, &err);
	if (code == 0)
		code = read_train(v, spec, &err);
	if (code == 0)
		code = read_eval(v, spec, &err);
	if (code == 0)
		code = read_deploy(v, spec, &err);
	if (code == 0)
		code = read_output_dir(v, spec, &err);
	if (code == 0)
		code = read_annotations(v, object, &err);
	if (code != 0)
		v->spec_error = arena_strdup(v->mem, err.text);
}
