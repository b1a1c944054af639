/* Datasets on the wire: the document that tells a node to watch one, and the node's status of it. */
#include "proto/document_internal.h"

int dataset_doc_decode(const char *data, size_t len, dataset_doc **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "dataset", data, len, err);
	dataset_doc *d = arena_alloc(r.mem, sizeof(*d));
	int code;

	d->mem = r.mem;
	d->ts = read__ts(&r, root, "dataset", NEEDED);
	d->stamp = read__stamp(&r, root, "dataset");
	d->node = read__node(&r, root, "dataset");
	read__dataset(&r, read__object(&r, root, "dataset", "dataset", NEEDED), "dataset.dataset", &d->dataset);
	d->credentials = read__credentials(&r, root, "dataset", &d->n_credentials);
	code = read__end(&r);
	*out = code == 0 ? d : NULL;
	return code;
}

char *dataset_doc_encode(const dataset_doc *d)
{
	cJSON *root = write__begin(d->ts);
	cJSON *dataset = write__dataset_id(&d->dataset);

	write__stamp(root, d->stamp);
	json_put_string(root, "node", d->node);
	json_put_string(dataset, "url", d->dataset.url);
	json_put_string(dataset, "format", dataset_format_name(d->dataset.format));
	json_put(root, "dataset", dataset);
	write__credentials(root, d->credentials, d->n_credentials);
	return write__end(root);
}

void dataset_doc_free(dataset_doc *d)
{
	if (d != NULL)
		arena_free(d->mem);
}

static void read_counts(reading *r, const cJSON *root, dataset_status *s)
{
	const char *where = "status";

	read__int(r, root, where, "samples", NEEDED, 0, DOCUMENT_MAX_INT, &s->samples);
	read__int(r, root, where, "size", NEEDED, 0, DOCUMENT_MAX_INT, &s->size);
	read__int(r, root, where, "waitingBytes", NEEDED, 0, DOCUMENT_MAX_INT, &s->waiting_bytes);
	read__int(r, root, where, "skipped", NEEDED, 0, DOCUMENT_MAX_INT, &s->skipped);
	read__int(r, root, where, "removed", NEEDED, 0, DOCUMENT_MAX_INT, &s->removed);
}

int dataset_status_decode(const char *data, size_t len, dataset_status **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "status", data, len, err);
	dataset_status *s = arena_alloc(r.mem, sizeof(*s));
	int code;

	s->mem = r.mem;
	s->ts = read__ts(&r, root, "status", NEEDED);
	s->node = read__node(&r, root, "status");
	read__dataset_id(&r, read__object(&r, root, "status", "dataset", NEEDED), "status.dataset", &s->dataset);
	read_counts(&r, root, s);
	s->changed = read__text(&r, root, "status", "changed", OPTIONAL, TEXT_MAX_TIME);
	s->error = read__prose(&r, root, "status", "error", OPTIONAL, TEXT_MAX_MESSAGE);
	code = read__end(&r);
	*out = code == 0 ? s : NULL;
	return code;
}

char *dataset_status_encode(const dataset_status *s)
{
	cJSON *root = write__begin(s->ts);

	json_put_string(root, "node", s->node);
	json_put(root, "dataset", write__dataset_id(&s->dataset));
	json_put_int(root, "samples", s->samples);
	json_put_int(root, "size", s->size);
	json_put_int(root, "waitingBytes", s->waiting_bytes);
	json_put_int(root, "skipped", s->skipped);
	json_put_int(root, "removed", s->removed);
	json_put_string(root, "changed", s->changed);
	write__prose(root, "error", s->error, TEXT_MAX_MESSAGE);
	return write__end(root);
}

void dataset_status_free(dataset_status *s)
{
	if (s != NULL)
		arena_free(s->mem);
}
