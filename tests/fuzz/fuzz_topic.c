/* Topics: what is taken is built again as the same text, and holds valid names alone. */
#include "proto/topic.h"
#include "tests/fuzz/fuzz_document.h"

static void check_names(const topic *t, const char *text)
{
	fuzz_check(t->ns[0] == '\0' || name_valid_ns(t->ns), "a wrong namespace", text);
	fuzz_check(t->name[0] == '\0' || name_valid(t->name), "a wrong name", text);
	fuzz_check(name_valid_node(t->node) || t->node[0] == '\0' || t->kind == TOPIC_PRESENCE, "a wrong node", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_strndup((const char *)data, size);
	topic t;
	error err = {0};

	if (topic_parse(TOPIC_ROOT, text, &t, &err) == 0) {
		char *again = topic_format(TOPIC_ROOT, &t);

		fuzz_check(strcmp(again, text) == 0, "comes back as another text", again);
		check_names(&t, text);
		free(again);
	} else {
		fuzz_check(err.code == ERROR_INVALID && err.text[0] != '\0', "refused without a reason", text);
	}
	(void)topic_root_valid(text);
	free(text);
	return 0;
}
