/* What an inference worker counts. */
#include "proto/document_internal.h"

int infer_stats_decode(const char *data, size_t len, infer_stats **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "stats", data, len, err);
	infer_stats *s = arena_alloc(r.mem, sizeof(*s));
	int code;

	s->mem = r.mem;
	s->ts = read__ts(&r, root, "stats", NEEDED);
	s->job = read__job(&r, root, "stats");
	s->node = read__node(&r, root, "stats");
	s->worker = read__name(&r, root, "stats", "worker", name_valid, "a worker's name");
	read__int(&r, root, "stats", "inferences", NEEDED, 0, DOCUMENT_MAX_INT, &s->inferences);
	read__int(&r, root, "stats", "hardExamples", NEEDED, 0, DOCUMENT_MAX_INT, &s->hard_examples);
	s->has_upload_ratio = read__double(&r, root, "stats", "uploadRatio", OPTIONAL, &s->upload_ratio);
	/* A worker's own words, in whatever form it writes times. */
	s->start_time = read__text(&r, root, "stats", "startTime", OPTIONAL, TEXT_MAX_WORD);
	s->update_time = read__text(&r, root, "stats", "updateTime", OPTIONAL, TEXT_MAX_WORD);
	code = read__end(&r);
	*out = code == 0 ? s : NULL;
	return code;
}

char *infer_stats_encode(const infer_stats *s)
{
	cJSON *root = write__begin(s->ts);

	write__job(root, &s->job);
	json_put_string(root, "node", s->node);
	json_put_string(root, "worker", s->worker);
	json_put_int(root, "inferences", s->inferences);
	json_put_int(root, "hardExamples", s->hard_examples);
	if (s->has_upload_ratio)
		json_put_double(root, "uploadRatio", s->upload_ratio);
	json_put_string(root, "startTime", s->start_time);
	json_put_string(root, "updateTime", s->update_time);
	return write__end(root);
}

void infer_stats_free(infer_stats *s)
{
	if (s != NULL)
		arena_free(s->mem);
}
