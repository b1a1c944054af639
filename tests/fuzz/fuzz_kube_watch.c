/* A watch: the same events whatever the pieces in which they come, through the reflector, which tells each object with a name and a version. */
#include "cloud-agent/cluster/kube/reflector.h"
#include "cloud-agent/cluster/kube/watch_lines.h"
#include "common/json.h"
#include "tests/fuzz/fuzz_document.h"

enum { EVENT_MAX = 4096 };

typedef struct seen {
	reflector *r;
	buf events;
	int told;
} seen;

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	seen *s = ctx;

	(void)kind;
	(void)ns;
	fuzz_check(name[0] != '\0', "told without a name", name);
	s->told++;
	cJSON_Delete(object);
}

static void on_event(void *ctx, enum watch_type type, cJSON *object)
{
	seen *s = ctx;
	char *text = json_print(object);

	buf_printf(&s->events, "%d%s\n", type, text != NULL ? text : "?");
	free(text);
	reflector_event(s->r, type, object, (moment){.mono_ms = 2000});
}

static void begin(seen *s)
{
	static const char empty[] = "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}";
	moment now = {.mono_ms = 1000};
	reflector_request request;
	cJSON *page = NULL;

	*s = (seen){.r = reflector_new(OBJECT_POD, NULL, 1, on_object, s)};
	(void)reflector_next(s->r, now, &request);
	free(request.path);
	(void)json_parse(empty, strlen(empty), 1000, &page, NULL);
	reflector_page(s->r, page, now);
	(void)reflector_next(s->r, now, &request);
	free(request.path);
}

static void feed(seen *s, const char *data, size_t size, size_t piece)
{
	watch_lines w;
	error err = {0};

	begin(s);
	watch_lines_init(&w, EVENT_MAX);
	for (size_t i = 0; i < size; i += piece) {
		if (watch_lines_add(&w, data + i, size - i < piece ? size - i : piece, on_event, s, &err) != 0) {
			fuzz_check(err.text[0] != '\0', "ended without a reason", "");
			break;
		}
	}
	watch_lines_fini(&w);
	reflector_free(s->r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	seen whole, pieces;

	feed(&whole, bytes, size, size > 0 ? size : 1);
	feed(&pieces, bytes, size, 7);
	fuzz_check(strcmp(buf_text(&whole.events), buf_text(&pieces.events)) == 0, "another stream in pieces", buf_text(&whole.events));
	fuzz_check(whole.told == pieces.told, "other objects in pieces", buf_text(&whole.events));
	buf_fini(&whole.events);
	buf_fini(&pieces.events);
	return 0;
}
