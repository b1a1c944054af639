/* Manifests: see manifests.h for the contract.
 *
 * A document goes through four steps: what kind is it, its metadata, its spec (or, for a Secret, its data), and only if none of them had a
 * mistake is it taken. Values of a Secret never get into a message.
 */
#include "cloud-agent/cluster/local/manifests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/manifest_fields.h"
#include "cloud-agent/cluster/local/template.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/yaml.h"
#include "proto/topic.h"

static const struct kind_row {
	enum object_kind kind;
	const char *api_version, *name;
	const field *spec;
} kinds[] = {
	{OBJECT_JOB, "sedna.io/v1alpha1", "IncrementalLearningJob", manifest_job_fields},
	{OBJECT_DATASET, "sedna.io/v1alpha1", "Dataset", manifest_dataset_fields},
	{OBJECT_MODEL, "sedna.io/v1alpha1", "Model", manifest_model_fields},
	{OBJECT_SECRET, "v1", "Secret", NULL},
	{OBJECT_POD, "v1", "Pod", NULL},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], SHOWN_MAX = 60 };

typedef struct reader {
	manifest_file *file;
	const char *name;
	size_t errors; /* in the present document */
} reader;

static const struct kind_row *kind_row_of(enum object_kind kind)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].kind == kind)
			return &kinds[i];
	}
	return NULL;
}

const char *manifest_api_version(enum object_kind kind)
{
	const struct kind_row *row = kind_row_of(kind);
	return row != NULL ? row->api_version : "v1";
}

const char *manifest_kind(enum object_kind kind)
{
	const struct kind_row *row = kind_row_of(kind);
	return row != NULL ? row->name : "unknown";
}

void secret_delete(cJSON *data)
{
	json_wipe(data);
}

/* Takes the text. */
static void problem_add(manifest_file *file, manifest_problem problem)
{
	if (!problem.warning && !problem.refused)
		file->broken = true;
	if (file->n_problems == MANIFEST_PROBLEMS_MAX) {
		manifest_problem *last = &file->problems[file->n_problems - 1];
		free(last->text);
		last->text = mem_strdup("there are more problems than are shown here");
		last->warning = last->warning && problem.warning;
		last->refused = last->refused && problem.refused;
		free(problem.text);
		return;
	}
	file->problems = mem_resize_array(file->problems, file->n_problems + 1, sizeof *file->problems);
	file->problems[file->n_problems++] = problem;
}

static void problem_tell(void *ctx, bool warning, int line, const char *text)
{
	reader *r = ctx;
	if (!warning)
		r->errors++;
	problem_add(r->file, (manifest_problem){.warning = warning, .text = mem_printf("%s:%d: %s", r->name, line, text)});
}

static void manifest_fini(manifest *m)
{
	free(m->ns);
	free(m->name);
	cJSON_Delete(m->meta);
	cJSON_Delete(m->spec);
	secret_delete(m->data);
	*m = (manifest){0};
}

void manifest_file_fini(manifest_file *file)
{
	for (size_t i = 0; i < file->n; i++)
		manifest_fini(&file->items[i]);
	for (size_t i = 0; i < file->n_problems; i++)
		free(file->problems[i].text);
	free(file->items);
	free(file->problems);
	*file = (manifest_file){0};
}

static const char *text_of(const yaml_node *node)
{
	return node != NULL && node->kind == YAML_SCALAR ? node->text : "";
}

/* NULL, told, if it is none of ours. */
static const struct kind_row *document_kind(reader *r, const yaml_node *doc)
{
	const yaml_node *kind = yaml_member(doc, "kind"), *api = yaml_member(doc, "apiVersion");
	if (doc->kind != YAML_MAP) {
		problem_tell(r, false, doc->line, "the document is not a map with apiVersion, kind and metadata");
		return NULL;
	}
	for (size_t i = 0; i < KINDS; i++) {
		const struct kind_row *row = &kinds[i];
		if (row->kind != OBJECT_POD && strcmp(text_of(kind), row->name) == 0 && strcmp(text_of(api), row->api_version) == 0)
			return row;
	}
	char *text =
		mem_printf("apiVersion \"%.*s\", kind \"%.*s\": is not one of sedna.io/v1alpha1 Dataset, Model, IncrementalLearningJob, or "
				   "v1 Secret",
			SHOWN_MAX, text_of(api), SHOWN_MAX, text_of(kind));
	problem_tell(r, false, kind != NULL ? kind->line : doc->line, text);
	free(text);
	return NULL;
}

static void read_metadata(reader *r, const yaml_node *doc, manifest *m, const fields_report *to)
{
	const yaml_node *node = yaml_member(doc, "metadata");
	int line = node != NULL ? node->line : doc->line;
	cJSON *meta = fields_read(manifest_metadata_fields, node, "metadata", line, to);
	const char *name = cJSON_GetStringValue(json_member(meta, "name"));
	const char *ns = cJSON_GetStringValue(json_member(meta, "namespace"));
	if (name != NULL && !name_valid(name))
		problem_tell(r, false, yaml_member(node, "name")->line,
			"metadata.name: is not made of lower-case letters, digits, '-' and '.' (at most 253)");
	if (ns != NULL && !name_valid_ns(ns))
		problem_tell(r, false, yaml_member(node, "namespace")->line,
			"metadata.namespace: is not made of lower-case letters, digits and '-' (at most 63)");
	m->name = mem_strdup(name != NULL ? name : "");
	m->ns = mem_strdup(ns != NULL ? ns : "default");
	cJSON_DeleteItemFromObjectCaseSensitive(meta, "name");
	cJSON_DeleteItemFromObjectCaseSensitive(meta, "namespace");
	m->meta = meta;
}

/* A value of `data` (base64) or `stringData` (as it stands); the latter wins. What no environment variable can hold is left out. */
static void read_secret_value(reader *r, manifest *m, const yaml_node *value, const char *group, bool encoded)
{
	buf text = {0};
	const char *wrong = NULL;
	if (value->kind != YAML_SCALAR)
		wrong = "is not a text";
	else if (!encoded)
		buf_puts(&text, value->text);
	else if (base64_decode(value->text, &text) != 0)
		wrong = "is not base64";
	if (wrong == NULL && !json_utf8_valid(buf_text(&text), text.len))
		wrong = "is not a text that an environment variable can hold; it is left out";
	if (wrong == NULL) {
		cJSON_DeleteItemFromObjectCaseSensitive(m->data, value->key);
		json_put_string(m->data, value->key, buf_text(&text));
	} else {
		char *told = mem_printf("%s.%.*s: %s", group, SHOWN_MAX, value->key, wrong);
		problem_tell(r, strstr(wrong, "left out") != NULL, value->line, told);
		free(told);
	}
	buf_wipe(&text);
}

static void read_secret(reader *r, const yaml_node *doc, manifest *m)
{
	static const char *const groups[] = {"data", "stringData"};
	m->data = cJSON_CreateObject();
	for (size_t i = 0; i < 2; i++) {
		const yaml_node *group = yaml_member(doc, groups[i]);
		if (!yaml_is_null(group) && group->kind != YAML_MAP) {
			char *told = mem_printf("%s: is not a map", groups[i]);
			problem_tell(r, false, group->line, told);
			free(told);
		} else if (group != NULL) {
			for (const yaml_node *value = group->child; value != NULL; value = value->next)
				read_secret_value(r, m, value, groups[i], i == 0);
		}
	}
}

static void warn_unknown(reader *r, const yaml_node *doc, const struct kind_row *row)
{
	static const char *const object_fields[] = {"apiVersion", "kind", "metadata", "spec", "status", NULL};
	static const char *const secret_fields[] = {"apiVersion", "kind", "metadata", "type", "data", "stringData", "immutable", NULL};
	const char *const *known = row->kind == OBJECT_SECRET ? secret_fields : object_fields;
	for (const yaml_node *node = doc->child; node != NULL; node = node->next) {
		size_t i = 0;
		while (known[i] != NULL && strcmp(known[i], node->key) != 0)
			i++;
		if (known[i] != NULL)
			continue;
		char *told = mem_printf("%.*s: is not a field that is known here; it is ignored", SHOWN_MAX, node->key);
		problem_tell(r, true, node->line, told);
		free(told);
	}
}

/* Where the fault is in the file: its own field, or what is nearest to it. */
static int fault_line(const yaml_node *template, const template_fault *fault)
{
	const yaml_node *part = yaml_member(yaml_member(template, "spec"), fault->field);
	const yaml_node *container = part != NULL && part->kind == YAML_SEQ ? part->child : NULL;
	const yaml_node *inner = fault->in_first != NULL ? yaml_member(container, fault->in_first) : NULL;
	if (inner != NULL)
		return inner->line;
	if (fault->in_first != NULL && container != NULL)
		return container->line;
	return part != NULL ? part->line : template->line;
}

/* Pods that could never run are no reason to begin a round. Templates without containers are the core's to refuse, wherever it runs. */
static void check_templates(reader *r, const yaml_node *spec, manifest *m)
{
	static const char *const parts[] = {"trainSpec", "evalSpec", "deploySpec"};
	char *first = NULL;
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		const cJSON *pod_spec = json_member(json_member(json_member(m->spec, parts[i]), "template"), "spec");
		template_fault fault;
		if (!template_filled(pod_spec, "containers") || !template_faulty(pod_spec, false, &fault))
			continue;
		int line = fault_line(yaml_member(yaml_member(spec, parts[i]), "template"), &fault);
		char *text = mem_printf("%s:%d: spec.%s.template: %s", r->name, line, parts[i], fault.text);
		if (first == NULL)
			first = mem_strdup(text);
		problem_add(r->file, (manifest_problem){.refused = true, .text = text});
	}
	cJSON *annotations = cJSON_GetObjectItemCaseSensitive(m->meta, "annotations");
	cJSON_DeleteItemFromObjectCaseSensitive(annotations, ANNOTATION_REFUSED);
	if (first == NULL)
		return;
	if (annotations == NULL) {
		annotations = cJSON_CreateObject();
		json_put(m->meta, "annotations", annotations);
	}
	json_put_string(annotations, ANNOTATION_REFUSED, first);
	free(first);
}

static void document_read(reader *r, const yaml_node *doc)
{
	r->errors = 0;
	const struct kind_row *row = document_kind(r, doc);
	if (row == NULL)
		return;
	fields_report to = {r, problem_tell};
	manifest m = {.kind = row->kind, .line = doc->line};
	read_metadata(r, doc, &m, &to);
	warn_unknown(r, doc, row);
	if (row->kind == OBJECT_SECRET) {
		read_secret(r, doc, &m);
	} else {
		const yaml_node *spec = yaml_member(doc, "spec");
		m.spec = fields_read(row->spec, spec, "spec", spec != NULL ? spec->line : doc->line, &to);
		if (r->errors == 0 && m.kind == OBJECT_JOB)
			check_templates(r, spec, &m);
	}
	if (r->errors > 0) {
		manifest_fini(&m);
		return;
	}
	r->file->items = mem_resize_array(r->file->items, r->file->n + 1, sizeof m);
	r->file->items[r->file->n++] = m;
}

void manifest_parse(const char *name, const char *data, size_t len, manifest_file *out)
{
	*out = (manifest_file){0};
	reader r = {.file = out, .name = name};
	arena *mem = arena_new();
	yaml_node **docs = NULL;
	size_t n = 0;
	error err = {0};
	if (yaml_parse(mem, name, data, len, MANIFEST_FILE_MAX, &docs, &n, &err) != 0) {
		problem_add(out, (manifest_problem){.text = mem_strdup(err.text)});
		goto free_arena;
	}
	if (n > MANIFEST_DOCUMENTS_MAX) {
		problem_add(out,
			(manifest_problem){.text = mem_printf("%s: has %zu documents; at most %d are taken", name, n, MANIFEST_DOCUMENTS_MAX)});
		goto free_arena;
	}
	for (size_t i = 0; i < n; i++)
		document_read(&r, docs[i]);
free_arena:
	arena_free(mem);
}
