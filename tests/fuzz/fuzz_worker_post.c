/* The body of a worker's post: what is taken comes back as the same, and fits into a report. */
#include "proto/worker.h"
#include "tests/fuzz/fuzz_document.h"

/* The name in the path is the one in the body, so that the input gets past it. */
static worker_post *decode(const char *text, size_t len)
{
	cJSON *body = cJSON_ParseWithLength(text, len);
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(body, "name");
	worker_post *post = NULL;
	int http = 0;
	error err = {0};
	int rc = worker_post_decode(cJSON_IsString(name) ? name->valuestring : "", text, len, &post, &http, &err);

	fuzz_check((rc == 0) == (post != NULL), "result and post disagree", err.text);
	fuzz_check(rc == 0 || http == 400 || http == 413 || http == 422, "a status that does not exist", err.text);
	fuzz_check(rc == 0 || err.text[0] != '\0', "refused without a reason", "");
	cJSON_Delete(body);
	return post;
}

static void check_report(const worker_post *post)
{
	report r = {.ts = "t",
		.job = {post->ns, post->job, "u"},
		.node = "n",
		.position = {1, STAGE_DEPLOY, PHASE_COMPLETED},
		.store = "s",
		.has_output = true,
		.output = {post->results, post->n_results, post->owner_info}};
	char *text = report_encode(&r);
	report *back = NULL;
	error err = {0};

	fuzz_check(text != NULL, "cannot be written as a report", "");
	fuzz_check(report_decode(text, strlen(text), STAGE_DEPLOY, REPORT_COMPLETED, &back, &err) == 0, "makes a report that is refused",
		err.text);
	report_free(back);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	worker_post *first = decode((const char *)data, size);
	worker_post *second;
	char *once, *twice;

	if (first == NULL)
		return 0;
	check_report(first);
	once = worker_post_encode(first);
	second = decode(once, strlen(once));
	fuzz_check(second != NULL, "does not take what it wrote", once);
	twice = worker_post_encode(second);
	fuzz_check(strcmp(once, twice) == 0, "comes back as another text", twice);
	free(once);
	free(twice);
	worker_post_free(first);
	worker_post_free(second);
	return 0;
}
