/* The C codecs as a filter, for tests/schema/run: what goes in as one line comes out as one line.
 *
 *   in:  {schema} TAB {variant} TAB {JSON}        "report TAB train-ready TAB {…}": the variant says what the topic would
 *   in:  topic TAB TAB {topic}
 *   out: ok TAB {text that the encoder makes}     or   refused TAB {error}
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "proto/document.h"
#include "proto/topic.h"
#include "proto/worker.h"

/* Each gives the re-encoded text, or NULL. */
#define CODEC(type)                                                                                                                        \
	static char *again_##type(const char *variant, const char *json, size_t len, error *err)                                               \
	{                                                                                                                                      \
		type *d;                                                                                                                           \
		char *text;                                                                                                                        \
                                                                                                                                           \
		(void)variant;                                                                                                                     \
		if (type##_decode(json, len, &d, err) != 0)                                                                                        \
			return NULL;                                                                                                                   \
		text = type##_encode(d);                                                                                                           \
		type##_free(d);                                                                                                                    \
		return text;                                                                                                                       \
	}
CODEC(desired)
CODEC(dataset_doc)
CODEC(inventory)
CODEC(dataset_status)
CODEC(infer_stats)
CODEC(presence)
CODEC(job_state)
CODEC(credential_request)
CODEC(credential_response)
#undef CODEC

static char *again_report(const char *variant, const char *json, size_t len, error *err)
{
	char stage_part[16];
	const char *dash = strchr(variant, '-');
	enum stage stage;
	enum report_what what;
	report *r;
	char *text;

	if (dash == NULL || (size_t)(dash - variant) >= sizeof(stage_part)) {
		(void)error_set(err, ERROR_INVALID, "variant '%s'", variant);
		return NULL;
	}
	(void)snprintf(stage_part, sizeof(stage_part), "%.*s", (int)(dash - variant), variant);
	if (!stage_parse_word(stage_part, &stage) || !report_what_parse(dash + 1, &what)) {
		(void)error_set(err, ERROR_INVALID, "variant '%s'", variant);
		return NULL;
	}
	if (report_decode(json, len, stage, what, &r, err) != 0)
		return NULL;
	text = report_encode(r);
	report_free(r);
	return text;
}

/* The name in the path is the one in the body, so that only the body is judged. */
static char *again_post(const char *variant, const char *json, size_t len, error *err)
{
	cJSON *body = cJSON_ParseWithLength(json, len);
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(body, "name");
	worker_post *post;
	int http;
	char *text = NULL;

	(void)variant;
	if (worker_post_decode(cJSON_IsString(name) ? name->valuestring : "", json, len, &post, &http, err) == 0) {
		text = worker_post_encode(post);
		worker_post_free(post);
	}
	cJSON_Delete(body);
	return text;
}

static char *again_topic(const char *variant, const char *text, size_t len, error *err)
{
	topic t;

	(void)variant;
	(void)len;
	return topic_parse(TOPIC_ROOT, text, &t, err) == 0 ? topic_format(TOPIC_ROOT, &t) : NULL;
}

static const struct {
	const char *name;
	char *(*again)(const char *variant, const char *json, size_t len, error *err);
} codecs[] = {
	{"desired", again_desired},
	{"dataset", again_dataset_doc},
	{"inventory", again_inventory},
	{"report", again_report},
	{"status", again_dataset_status},
	{"stats", again_infer_stats},
	{"presence", again_presence},
	{"state", again_job_state},
	{"credential-request", again_credential_request},
	{"credential-response", again_credential_response},
	{"worker-post", again_post},
	{"topic", again_topic},
};

static int answer(char *line)
{
	char *variant = strchr(line, '\t');
	char *json = variant != NULL ? strchr(variant + 1, '\t') : NULL;
	error err = {0};

	if (json == NULL)
		return -1;
	*variant++ = '\0';
	*json++ = '\0';
	for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
		char *text;

		if (strcmp(codecs[i].name, line) != 0)
			continue;
		text = codecs[i].again(variant, json, strlen(json), &err);
		(void)printf("%s\t%s\n", text != NULL ? "ok" : "refused", text != NULL ? text : err.text);
		free(text);
		return 0;
	}
	return -1;
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int status = 0;

	mem_init();
	while (status == 0 && (n = getline(&line, &cap, stdin)) >= 0) {
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (answer(line) != 0) {
			(void)fprintf(stderr, "not understood: %s\n", line);
			status = 1;
		}
		(void)fflush(stdout);
	}
	free(line);
	return status;
}
