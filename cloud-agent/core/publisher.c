/* What the broker holds of ours, and what has still to go there.
 *
 * One `doc` for each retained topic: what it should hold, a fingerprint of what was published last, and whether it is in the queue. The text
 * is made, and its stamp taken, when it goes out, from what is true then. All documents of one leader share one counter (rule 10).
 *
 * When something leaves a node its document is cleared, and after it the inventory goes out with a new stamp, even if it reads as before (rule
 * 12). After each connect, at the start of leading and on the slow timer everything goes out again, inventories first (rule 17).
 *
 * The core subscribes to its own topics (rule 18). What comes back is ours if it has our epoch and is not newer than what was published there;
 * anything else is overwritten, or cleared if nothing belongs there, once all that is known has been looked at. A topic that was cleared is
 * remembered until the echo of that has come, so that the echoes of what it held are not taken for somebody else's.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"

enum { SEEN_MAX = 256 * 1024 };

/* ---- the queue ---- */

static void unqueue(controller *c, doc *d)
{
	if (!d->queued)
		return;
	*(d->prev != NULL ? &d->prev->next : &c->queue_head) = d->next;
	*(d->next != NULL ? &d->next->prev : &c->queue_tail) = d->prev;
	d->prev = d->next = NULL;
	d->queued = false;
}

void doc_requeue(controller *c, doc *d)
{
	unqueue(c, d);
	d->prev = c->queue_tail;
	*(c->queue_tail != NULL ? &c->queue_tail->next : &c->queue_head) = d;
	c->queue_tail = d;
	d->queued = true;
}

static void queue(controller *c, doc *d)
{
	if (!d->queued)
		doc_requeue(c, d);
}

/* ---- docs ---- */

static doc *find(controller *c, const topic *t, bool make)
{
	char *text = topic_format(c->cfg.root, t);
	doc *d = table_get(&c->docs, text);
	if (d != NULL || !make) {
		free(text);
		return d;
	}
	d = mem_alloc(sizeof *d);
	d->kind = t->kind;
	d->topic = text;
	d->ns = mem_strdup(t->ns);
	d->name = mem_strdup(t->name);
	table_put(&c->docs, text, d);
	if (t->kind == TOPIC_STATE)
		return d;
	d->node = node_get(c, t->node, true);
	if (t->kind == TOPIC_INVENTORY) {
		d->node->inventory = d;
	} else {
		d->node_next = d->node->docs;
		d->node->docs = d;
	}
	return d;
}

doc *doc_get(controller *c, enum topic_kind kind, const char *ns, const char *name, const char *node_name)
{
	topic t = {.kind = kind};
	text_copy(t.ns, sizeof t.ns, ns != NULL ? ns : "");
	text_copy(t.name, sizeof t.name, name != NULL ? name : "");
	text_copy(t.node, sizeof t.node, node_name != NULL ? node_name : "");
	return find(c, &t, true);
}

static void doc_free(doc *d)
{
	free(d->topic);
	free(d->ns);
	free(d->name);
	free(d->uid);
	free(d->seen_uid);
	free(d);
}

void doc_set(controller *c, doc *d, const char *uid, char *canonical)
{
	bool joins = d->want != WANT_PUBLISH || (uid != NULL && (d->uid == NULL || strcmp(d->uid, uid) != 0));
	d->want = WANT_PUBLISH;
	if (joins) {
		free(d->uid);
		d->uid = mem_strdup(uid);
	}
	if (canonical != NULL)
		digest_of(canonical, strlen(canonical), &d->wanted);
	free(canonical);
	if (joins || !d->has_print || !digest_equal(&d->print, &d->wanted))
		queue(c, d);
	if (joins && d->node != NULL && d->kind != TOPIC_INVENTORY)
		fleet_inventory(c, d->node, true);
}

void doc_clear(controller *c, doc *d)
{
	d->want = WANT_CLEAR;
	d->again = false;
	doc_requeue(c, d);
	if (d->node != NULL && d->kind != TOPIC_INVENTORY)
		fleet_inventory(c, d->node, true);
}

void docs_queue_node(controller *c, const node *n)
{
	for (doc *d = n->docs; d != NULL; d = d->node_next) {
		if (d->want == WANT_PUBLISH)
			doc_requeue(c, d);
	}
}

/* Each clear goes out once more later on, as it may have been lost, or a late message may have come after it; one without an echo until there
 * is one. */
static void clear_again(controller *c, doc *d)
{
	if (d->want != WANT_NOTHING || d->cleared.epoch == 0 || (d->again && d->echoes == 0))
		return;
	d->echoes = 0;
	d->again = true;
	d->want = WANT_CLEAR;
	doc_requeue(c, d);
}

void docs_queue_all(controller *c)
{
	for (size_t i = 0; i < c->docs.n; i++)
		clear_again(c, c->docs.entries[i].value);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < c->docs.n; i++) {
			doc *d = c->docs.entries[i].value;
			if (d->want == WANT_PUBLISH && (d->kind == TOPIC_INVENTORY) == (pass == 0))
				doc_requeue(c, d);
		}
	}
}

static void forget(controller *c, doc *d)
{
	node *n = d->node;
	if (d->node != NULL && d->node->inventory == d)
		d->node->inventory = NULL;
	for (doc **link = d->node != NULL ? &d->node->docs : NULL; link != NULL && *link != NULL; link = &(*link)->node_next) {
		if (*link == d) {
			*link = d->node_next;
			break;
		}
	}
	table_remove(&c->docs, d->topic);
	doc_free(d);
	if (n != NULL)
		node_release(c, n);
}

void docs_forget(controller *c, bool all)
{
	for (size_t i = c->docs.n; i-- > 0;) {
		doc *d = c->docs.entries[i].value;
		if (d->want == WANT_NOTHING && !d->queued && !d->foreign && (all || (d->again && d->echoes == 0)))
			forget(c, d);
	}
}

void docs_new_link(controller *c)
{
	for (size_t i = c->docs.n; i-- > 0;) {
		doc *d = c->docs.entries[i].value;
		d->echoes = 0;
		d->echoed = (stamp){0};
	}
	docs_forget(c, true);
}

void docs_fini(controller *c)
{
	for (size_t i = 0; i < c->docs.n; i++)
		doc_free(c->docs.entries[i].value);
	table_fini(&c->docs);
}

/* ---- going out ---- */

static char *make_text(controller *c, doc *d, const stamp *s)
{
	char *key = object_key(d->ns, d->name), *text = NULL;
	job *j = d->kind == TOPIC_STATE || d->kind == TOPIC_DESIRED ? table_get(&c->jobs, key) : NULL;
	const dataset *set = d->kind == TOPIC_DATASET ? table_get(&c->datasets, key) : NULL;
	free(key);
	if (d->kind == TOPIC_INVENTORY) {
		text = document_inventory(c, d->node, s);
		d->node->unnamed = false;
	} else if (d->kind == TOPIC_STATE && j != NULL) {
		text = document_state(c, j, s);
	} else if (d->kind == TOPIC_DESIRED && j != NULL) {
		text = document_desired(c, j, d->node->name, s);
	} else if (set != NULL) {
		text = document_dataset(c, set, d->node->name, s);
	}
	return text;
}

static bool send_text(controller *c, doc *d, cloud_action *out)
{
	stamp s = stamp_new(c);
	char *text = make_text(c, d, &s);
	if (text == NULL) {
		d->has_print = false; /* as soon as it can be made again, which is a change of its job, it goes out */
		return false;
	}
	d->last = s;
	d->print = d->wanted;
	d->has_print = true;
	c->out_payload = text;
	c->count.published++;
	out->publish.payload = text;
	return true;
}

static void send_clear(controller *c, doc *d, cloud_action *out)
{
	d->want = WANT_NOTHING;
	d->has_print = false;
	d->last = (stamp){0};
	d->cleared = (stamp){.epoch = c->epoch, .gen = c->gen};
	d->echoes++;
	c->count.cleared++;
	out->publish.payload = "";
}

bool publisher_next(controller *c, cloud_action *out)
{
	while (c->queue_head != NULL) {
		doc *d = c->queue_head;
		unqueue(c, d);
		*out = (cloud_action){.kind = CLOUD_PUBLISH};
		out->publish.topic = d->topic;
		out->publish.retained = true;
		if (d->want == WANT_PUBLISH && send_text(c, d, out))
			return true;
		if (d->want == WANT_CLEAR) {
			send_clear(c, d, out);
			return true;
		}
	}
	return false;
}

/* ---- coming back ---- */

static bool read_seen(const void *payload, size_t len, stamp *s, char **uid)
{
	cJSON *tree;
	if (json_parse(payload, len, SEEN_MAX, &tree, NULL) != 0)
		return false;
	const cJSON *part = json_member(tree, "stamp");
	bool right = json_get_int(part, "stamp", "epoch", 0, DOCUMENT_MAX_EPOCH, &s->epoch, NULL) == 1 &&
		json_get_int(part, "stamp", "gen", 0, DOCUMENT_MAX_INT, &s->gen, NULL) == 1;
	*uid = mem_strdup(object_text(tree, "job", "uid"));
	cJSON_Delete(tree);
	return right;
}

/* The number after `before` in the first bytes of a payload; -1 if it is not there. */
static int64_t number_after(const char *text, const char *before)
{
	const char *found = strstr(text, before);
	return found != NULL ? strtoll(found + strlen(before), NULL, 10) : -1;
}

/* The beginning of a document and its stamp as we write it, without reading the whole: most of what comes back is our own. */
typedef struct glance {
	char head[400];
	stamp s;
} glance;

static void glance_at(const void *payload, size_t len, glance *g)
{
	size_t n = len < sizeof g->head - 1 ? len : sizeof g->head - 1;
	memcpy(g->head, payload, n);
	g->head[n] = '\0';
	g->s = (stamp){.epoch = number_after(g->head, "\"stamp\":{\"epoch\":"), .gen = number_after(g->head, ",\"gen\":")};
}

/* What comes back of ours never goes back: an older one after a newer one means that the broker holds it, by whatever way it came there. */
static bool is_ours(const controller *c, doc *d, stamp s)
{
	if (s.epoch != c->epoch)
		return false;
	if (d->last.gen == 0)
		return d->echoes > 0 && stamp_compare(s, d->cleared) <= 0;
	if (stamp_compare(s, d->last) > 0 || stamp_compare(s, d->echoed) < 0)
		return false;
	d->echoed = s;
	return true;
}

/* Who does not lead sees all that the leader publishes. Where that is noted as foreign already, only another epoch or uid is news. */
static bool is_noted(const controller *c, const doc *d, const glance *g)
{
	const char *uid = d->seen_uid;
	bool same_uid = d->kind != TOPIC_DESIRED || (uid != NULL && uid[0] != '\0' && strstr(g->head, uid) != NULL);
	return !c->leading && d->foreign && g->s.epoch == c->seen_epoch && same_uid;
}

static void emptied(controller *c, doc *d)
{
	if (d->echoes > 0) {
		d->echoes--;
		return;
	}
	if (d->want == WANT_PUBLISH && d->last.gen > 0) {
		d->foreign = true;
		c->foreign_due = true;
	}
}

/* Anybody may publish below our topics: what that makes us remember is bounded, and forgotten when it has been cleared. */
static bool is_full(controller *c, const topic *t)
{
	return c->docs.n >= DOCS_MAX || (t->kind != TOPIC_STATE && c->nodes.n >= NODES_MAX && node_get(c, t->node, false) == NULL);
}

void publisher_seen(controller *c, const topic *t, const void *payload, size_t len)
{
	stamp s = {0};
	char *uid = NULL;
	doc *d = find(c, t, len > 0 && !is_full(c, t));
	if (d == NULL)
		return;
	if (len == 0) {
		emptied(c, d);
		return;
	}
	glance g;
	glance_at(payload, len, &g);
	if (is_ours(c, d, g.s) || is_noted(c, d, &g))
		return;
	bool read = read_seen(payload, len, &s, &uid);
	free(d->seen_uid);
	d->seen_uid = uid;
	d->foreign = true;
	c->foreign_due = true;
	if (!read)
		return;
	epoch_seen(c, s.epoch);
	if (s.gen > c->gen)
		epoch_taken(c, s.epoch);
}

/* What belongs on a topic that we do not publish: nothing, except while it is not known what does. */
static bool belongs(controller *c, const doc *d)
{
	char *key = object_key(d->ns, d->name);
	job *j = d->kind == TOPIC_DESIRED ? table_get(&c->jobs, key) : NULL;
	const dataset *set = d->kind == TOPIC_DATASET ? table_get(&c->datasets, key) : NULL;
	free(key);
	if (j != NULL)
		return job_facts(c, j)->blocked && d->seen_uid != NULL && strcmp(d->seen_uid, j->uid) == 0;
	return set != NULL && set->wrong != NULL;
}

void docs_judge_again(controller *c)
{
	c->foreign_due = c->foreign_due || c->foreign_kept;
}

void docs_judge_foreign(controller *c)
{
	size_t n = 0;
	doc **list = mem_alloc((c->docs.n + 1) * sizeof *list);
	c->foreign_due = c->foreign_kept = false;
	for (size_t i = 0; i < c->docs.n; i++) {
		doc *d = c->docs.entries[i].value;
		if (d->foreign)
			list[n++] = d;
	}
	for (size_t i = 0; i < n; i++) {
		doc *d = list[i];
		bool undecided = d->want == WANT_NOTHING && d->kind != TOPIC_INVENTORY && belongs(c, d);
		d->foreign = undecided;
		c->foreign_kept = c->foreign_kept || undecided;
		if (d->want != WANT_NOTHING)
			doc_requeue(c, d);
		else if (d->kind == TOPIC_INVENTORY)
			d->want = WANT_PUBLISH; /* fleet_inventory finds out whether it stays */
		else if (!undecided)
			doc_clear(c, d);
		if (d->kind == TOPIC_INVENTORY)
			fleet_inventory(c, d->node, true);
		else if (d->want == WANT_PUBLISH && d->node != NULL)
			fleet_inventory(c, d->node, true);
	}
	free(list);
}
