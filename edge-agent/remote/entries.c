/* See entries.h. */
#include "edge-agent/remote/entries.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "edge-agent/storage/numbered.h"

static void on_entry(void *ctx, const cJSON *event)
{
	entry_numbers *list = ctx;
	const char *kind = "", *name = "";
	bool folder = false;
	json_get_string(event, "event", "event", &kind, NULL);
	json_get_string(event, "event", "name", &name, NULL);
	json_get_bool(event, "event", "folder", &folder, NULL);
	int64_t number = strcmp(kind, "entry") == 0 && folder ? numbered_parse(name, strlen(name)) : -1;
	if (number < 0)
		return;
	list->at = mem_resize_array(list->at, list->n + 1, sizeof *list->at);
	list->at[list->n++] = number;
}

static int highest_first(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x < y) - (x > y);
}

int entry_numbers_list(const transfer *t, const char *url, entry_numbers *out, error *err)
{
	const char *args[] = {"list", url, NULL};
	*out = (entry_numbers){0};
	int code = transfer_run(t, url, args, on_entry, out, err);
	if (out->n > 0)
		qsort(out->at, out->n, sizeof *out->at, highest_first);
	return code;
}
