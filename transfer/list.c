/* See list.h. A page at a time; within a page the store gives objects and folders one after the other, so they are merged. */
#include "transfer/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
#include "transfer/store.h"

static void say(const char *name, size_t len, const s3_object *object)
{
	cJSON *line = cJSON_CreateObject();
	char *part = mem_strndup(name, len);
	json_put_string(line, "event", "entry");
	json_put_string(line, "name", part);
	json_put_bool(line, "folder", object == NULL);
	if (object != NULL) {
		json_put_int(line, "size", object->size);
		if (object->etag != NULL && object->etag[0] != '\0' && json_utf8_valid(object->etag, strlen(object->etag)))
			json_put_string(line, "etag", object->etag);
	}
	char *text = json_print(line);
	printf("%s\n", text);
	free(text);
	free(part);
	cJSON_Delete(line);
}

static int64_t say_page(const s3_page *page, size_t below)
{
	size_t o = 0, f = 0;
	int64_t said = 0;
	while (o < page->n || f < page->n_folders) {
		if (f == page->n_folders || (o < page->n && strcmp(page->items[o].key, page->folders[f]) < 0)) {
			const s3_object *object = &page->items[o++];
			if (object->key[below] == '\0')
				continue; /* it only stands for the folder itself */
			say(object->key + below, strlen(object->key + below), object);
		} else {
			const char *name = page->folders[f++] + below;
			size_t len = strlen(name);
			say(name, len > 0 && name[len - 1] == '/' ? len - 1 : len, NULL);
		}
		said++;
	}
	return said;
}

int list_folder(client *c, const location *of, int64_t *entries, error *err)
{
	listing l;
	int got;
	*entries = 0;
	listing_init(&l, c, of, of->key);
	l.flat = true;
	while ((got = listing_page(&l, err)) > 0) {
		*entries += say_page(&l.page, strlen(of->key));
		if (fflush(stdout) != 0)
			cancel_now();
		if (cancelled()) {
			got = error_set(err, ERROR_CANCELLED, "%s: stopped on request", of->shown);
			break;
		}
	}
	listing_fini(&l);
	return got;
}
