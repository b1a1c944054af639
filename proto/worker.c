/* Names of workers, pods and label values: deterministic, so that making a pod twice is impossible and both agents know a worker's name
 * without asking each other. Lengths are those that Kubernetes allows: 63 characters for labels and for pod names that become host names.
 */
#include "proto/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"

enum { SUFFIX = 10, POD_JOB_MAX = 40, LABEL_MAX = 63, LABEL_CUT = 52 };

static const struct {
	const char *word, *prefix;
} kinds[] = {
	[WORKER_TRAIN] = {"train", "train-worker-"},
	[WORKER_EVAL] = {"eval", "eval-worker-"},
	[WORKER_INFERENCE] = {"inference", "inferworker-"},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const char *worker_kind_word(enum worker_kind k)
{
	return (unsigned)k < N_KINDS ? kinds[k].word : "?";
}

bool worker_kind_parse(const char *word, enum worker_kind *out)
{
	for (unsigned i = 0; i < N_KINDS; i++) {
		if (strcmp(word, kinds[i].word) == 0) {
			*out = (enum worker_kind)i;
			return true;
		}
	}
	return false;
}

static void make_suffix(enum worker_kind k, const char *uid, int64_t round, char out[SUFFIX + 1])
{
	char *text = mem_printf("%s/%" PRId64 "/%s", uid, round, worker_kind_word(k));

	digest_name(text, SUFFIX, out);
	free(text);
}

void worker_name(enum worker_kind k, const char *uid, int64_t round, char out[WORKER_NAME_SIZE])
{
	char suffix[SUFFIX + 1];

	make_suffix(k, uid, round, suffix);
	(void)snprintf(out, WORKER_NAME_SIZE, "%s%s", kinds[k].prefix, suffix);
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* At most `max` characters of text, cut further to end in a letter or digit. */
static int cut_length(const char *text, size_t max)
{
	size_t len = strnlen(text, max);

	while (len > 0 && !is_alnum(text[len - 1]))
		len--;
	return (int)len;
}

void pod_name(enum worker_kind k, const char *job, const char *uid, int64_t round, char out[POD_NAME_SIZE])
{
	char suffix[SUFFIX + 1];

	make_suffix(k, uid, round, suffix);
	(void)snprintf(out, POD_NAME_SIZE, "%.*s-%s-%s", cut_length(job, POD_JOB_MAX), job, worker_kind_word(k), suffix);
}

void label_value(const char *text, char out[64])
{
	char suffix[SUFFIX + 1];

	if (strnlen(text, LABEL_MAX + 1) <= LABEL_MAX) {
		(void)snprintf(out, LABEL_MAX + 1, "%s", text);
		return;
	}
	digest_name(text, SUFFIX, suffix);
	(void)snprintf(out, LABEL_MAX + 1, "%.*s-%s", cut_length(text, LABEL_CUT), text, suffix);
}
