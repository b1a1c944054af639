/* Annotations that were changed here, while the manifest, which is the user's, stays as it is.
 *
 * Notes are {"taken": {name: value}, "own": {name: value}}. What was taken away has its value as the manifest has it: as long as it does, the
 * annotation is not there. What was set is there beside the manifest's. Both go with the object.
 */
#include <stdio.h>
#include <string.h>

#include "cloud-agent/cluster/local/objects_internal.h"
#include "common/json.h"
#include "common/mem.h"

static const cJSON *annotations_of(const cJSON *meta)
{
	return json_member(meta, "annotations");
}

static bool same_text(const cJSON *a, const cJSON *b)
{
	return cJSON_IsString(a) && cJSON_IsString(b) && strcmp(a->valuestring, b->valuestring) == 0;
}

void objects__notes_keep(object_row *row, const cJSON *meta)
{
	cJSON *taken = cJSON_GetObjectItemCaseSensitive(row->notes, "taken"), *next;
	for (cJSON *item = taken != NULL ? taken->child : NULL; item != NULL; item = next) {
		next = item->next;
		if (!same_text(json_member(annotations_of(meta), item->string), item))
			cJSON_Delete(cJSON_DetachItemViaPointer(taken, item));
	}
}

void objects__notes_apply(const cJSON *notes, cJSON *meta)
{
	const cJSON *taken = json_member(notes, "taken"), *own = json_member(notes, "own"), *item;
	cJSON *annotations = cJSON_GetObjectItemCaseSensitive(meta, "annotations");
	cJSON_ArrayForEach(item, taken) {
		cJSON_DeleteItemFromObjectCaseSensitive(annotations, item->string);
	}
	if (own == NULL || own->child == NULL)
		return;
	if (annotations == NULL) {
		annotations = cJSON_CreateObject();
		json_put(meta, "annotations", annotations);
	}
	cJSON_ArrayForEach(item, own) {
		cJSON_DeleteItemFromObjectCaseSensitive(annotations, item->string);
		json_put_string(annotations, item->string, item->valuestring);
	}
}

static cJSON *part(cJSON *notes, const char *name)
{
	cJSON *obj = cJSON_GetObjectItemCaseSensitive(notes, name);
	return obj != NULL ? obj : cJSON_AddObjectToObject(notes, name);
}

static void change_one(object_row *row, const cJSON *change)
{
	const cJSON *in_manifest = json_member(annotations_of(row->meta), change->string);
	if (row->notes == NULL)
		row->notes = cJSON_CreateObject();
	cJSON *taken = part(row->notes, "taken"), *own = part(row->notes, "own");
	cJSON_DeleteItemFromObjectCaseSensitive(own, change->string);
	cJSON_DeleteItemFromObjectCaseSensitive(taken, change->string);
	if (cJSON_IsString(change))
		json_put_string(own, change->string, change->valuestring);
	else if (cJSON_IsString(in_manifest))
		json_put_string(taken, change->string, in_manifest->valuestring);
}

static int annotate_in(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *annotations, cJSON **out, error *err)
{
	object_row row;
	const cJSON *change;
	char now[24];
	int code = objects__row_get(o, kind, ns, name, &row, err);
	if (code != 0)
		return code;
	snprintf(now, sizeof now, "%lld", (long long)row.version);
	if (strcmp(uid, row.uid) != 0 || strcmp(version, now) != 0) {
		*out = objects__row_object(kind, ns, name, &row);
		return error_set(err, ERROR_CONFLICT, "%s %s/%s was changed meanwhile", manifest_kind(kind), ns, name);
	}
	cJSON_ArrayForEach(change, annotations) {
		change_one(&row, change);
	}
	code = objects__row_put(o, kind, ns, name, &row, err);
	if (code == 0)
		*out = objects__row_object(kind, ns, name, &row);
	objects__row_fini(&row);
	return code;
}

int objects_annotate(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *annotations, cJSON **out, error *err)
{
	*out = NULL;
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_end(o, annotate_in(o, kind, ns, name, uid, version, annotations, out, err), err);
	if (code != 0 && code != ERROR_CONFLICT) {
		cJSON_Delete(*out);
		*out = NULL;
	}
	return code;
}
