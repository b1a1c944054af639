/* The deployed models that are kept: what a job can go back to.
 *
 * The node that deploys tells which they are, with every deployment; they stand in the `ilmare` member of the last condition, and of no other,
 * since only the last one is read for them and each costs a few hundred bytes. Beside what the node tells stands what only the cluster knows: what
 * training would go on from (`base`), the trainable result of the round that made the model. Its Train/Completed is gone from the conditions
 * long before the version goes from the disk.
 */
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"

/* In the object; what is beyond is not kept in mind, the oldest first. */
enum { VERSIONS_BYTES_MAX = 3000, VERSION_BYTES = 160 };

const kept_version *version_find(const member *m, int64_t round)
{
	for (size_t i = 0; i < m->n_versions; i++) {
		if (m->versions[i].round == round)
			return &m->versions[i];
	}
	return NULL;
}

char *versions_text(arena *mem, const member *m)
{
	char *text = arena_strdup(mem, "");
	for (size_t i = m->n_versions; i-- > 0;)
		text = arena_printf(mem, "%s%s%lld", text, text[0] != '\0' ? ", " : "", (long long)m->versions[i].round);
	return text;
}

cJSON *versions_rounds(const member *m)
{
	cJSON *list = cJSON_CreateArray();
	for (size_t i = 0; i < m->n_versions; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber((double)m->versions[i].round));
	return list;
}

/* ---- as a part of the member ---- */

static bool read_one(const cJSON *entry, kept_version *out)
{
	const char *hex = NULL;
	const cJSON *base = json_member(entry, "base");
	*out = (kept_version){0};
	if (json_get_int(entry, "", "round", 0, DOCUMENT_MAX_INT, &out->round, NULL) != 1 ||
		json_get_string(entry, "", "url", &out->url, NULL) != 1 || json_get_string(entry, "", "sha256", &hex, NULL) != 1 ||
		digest_parse(hex, &out->sha256) != 0)
		return false;
	if (json_get_string(base, "", "url", &out->base_url, NULL) == 1 && json_get_string(base, "", "format", &out->base_format, NULL) != 1)
		out->base_format = "";
	return true;
}

void versions_read(arena *mem, const cJSON *obj, member *m)
{
	const cJSON *list = json_member(obj, "versions"), *entry;
	if (!cJSON_IsArray(list) || list->child == NULL)
		return;
	m->versions = arena_alloc(mem, DOCUMENT_MAX_VERSIONS * sizeof *m->versions);
	cJSON_ArrayForEach(entry, list) {
		if (m->n_versions < DOCUMENT_MAX_VERSIONS && read_one(entry, &m->versions[m->n_versions]))
			m->n_versions++;
	}
}

void versions_put(const member *m, cJSON *obj)
{
	cJSON *list = cJSON_CreateArray();
	for (size_t i = 0; i < m->n_versions; i++) {
		const kept_version *v = &m->versions[i];
		cJSON *entry = cJSON_CreateObject();
		char hex[DIGEST_HEX_SIZE];
		digest_hex(&v->sha256, hex);
		json_put_int(entry, "round", v->round);
		json_put_string(entry, "sha256", hex);
		json_put_string(entry, "url", v->url);
		if (v->base_url != NULL)
			json_put(entry, "base", model_encode(&(model){.format = v->base_format, .url = v->base_url}));
		cJSON_AddItemToArray(list, entry);
	}
	json_put(obj, "versions", list);
}

/* ---- as a report tells them ---- */

/* What training would go on from if this version served. */
static void find_base(const job *j, const member *before, kept_version *v)
{
	const job_view *view = j->view;
	bool present = v->round == view->pos.round, back = present && before->rollback.under_way;
	const kept_version *source = version_find(before, back ? before->rollback.to : v->round);
	const model *m = NULL;
	if (present && !back && view->trained.there && j->facts.initial != NULL)
		m = model_select(view->trained.models, view->trained.n, j->facts.initial, USE_TRAIN);
	if (m != NULL) {
		v->base_url = m->url;
		v->base_format = m->format;
	} else if (source != NULL && (back || !present)) {
		v->base_url = source->base_url;
		v->base_format = source->base_format;
	}
}

static size_t size_of(const kept_version *v)
{
	return VERSION_BYTES + strlen(v->url) + (v->base_url != NULL ? strlen(v->base_url) + strlen(v->base_format) : 0);
}

void versions_take(const job *j, const report *r, change *ch)
{
	const member before = ch->m;
	size_t bytes = 0;
	if (!r->has_versions)
		return;
	ch->m.versions = arena_alloc(ch->mem, (r->n_versions + 1) * sizeof *ch->m.versions);
	ch->m.n_versions = 0;
	for (size_t i = 0; i < r->n_versions; i++) {
		kept_version v = {.round = r->versions[i].round, .sha256 = r->versions[i].sha256, .url = r->versions[i].url};
		find_base(j, &before, &v);
		/* What was there first has its place even so. */
		bool fits = bytes + size_of(&v) <= VERSIONS_BYTES_MAX || (v.round == 0 && strlen(v.url) <= VERSIONS_BYTES_MAX / 2);
		if (!fits || !url_usable(v.url))
			continue;
		bytes += size_of(&v);
		ch->m.versions[ch->m.n_versions++] = v;
	}
}
