/* Nodes: who is there, and what each should have.
 *
 * A node is known by its presence, by a document for it, or by a Node object. Each whose presence is seen or that something names has an
 * inventory, empty or not (rule 14); it is cleared when neither is so any more and the cluster does not list the node. Each birth is answered
 * with an inventory that names its session, and then with all that the node should have (rules 15, 17).
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"
#include "common/log.h"

enum { RIVAL_MIN_MS = 1000, RIVAL_MAX_MS = 5 * 60 * 1000, RIVAL_CALM_MS = 15 * 60 * 1000, EPOCH_AHEAD_S = 10 * 366 * 24 * 3600 };

node *node_get(controller *c, const char *name, bool make)
{
	node *n = table_get(&c->nodes, name);
	if (n != NULL || !make)
		return n;
	n = mem_alloc(sizeof *n);
	n->name = mem_strdup(name);
	n->offline_at = n->answered_at = -1;
	table_put(&c->nodes, name, n);
	return n;
}

static void node_free(node *n)
{
	free(n->name);
	free(n->session);
	free(n);
}

void node_release(controller *c, node *n)
{
	if (n->present || n->listed || n->docs != NULL || n->inventory != NULL)
		return;
	table_remove(&c->nodes, n->name);
	node_free(n);
}

void fleet_fini(controller *c)
{
	for (size_t i = 0; i < c->nodes.n; i++)
		node_free(c->nodes.entries[i].value);
	table_fini(&c->nodes);
}

static bool named(const node *n)
{
	for (const doc *d = n->docs; d != NULL; d = d->node_next) {
		if (d->want == WANT_PUBLISH)
			return true;
	}
	return false;
}

void fleet_inventory(controller *c, node *n, bool force)
{
	bool held = n->inventory != NULL && n->inventory->want == WANT_PUBLISH;
	if (n->present || named(n) || (n->listed && held)) {
		doc *d = n->inventory != NULL ? n->inventory : doc_get(c, TOPIC_INVENTORY, NULL, NULL, n->name);
		bool begins = d->want != WANT_PUBLISH;
		d->want = WANT_PUBLISH;
		if (!force && !begins)
			return;
		doc_requeue(c, d);
		/* Documents that the node is to take for those of its session have to come after it. */
		if (n->unnamed)
			docs_queue_node(c, n);
	} else if (held) {
		doc_clear(c, n->inventory);
	}
}

/* Jobs whose visible reason, or whose limits, depend on this node. */
static void touch_jobs(controller *c, const char *name)
{
	for (size_t i = 0; i < c->jobs.n; i++) {
		job *j = c->jobs.entries[i].value;
		const facts *f = &j->facts;
		for (size_t k = 0; k < f->n_roles && !j->stale; k++) {
			if (strcmp(f->roles[k].node, name) == 0)
				job_touch(c, j);
		}
	}
}

void node_listed(controller *c, const char *name, const cJSON *object)
{
	const cJSON *condition;
	node *n = node_get(c, name, object != NULL && name_valid_node(name));
	if (n == NULL)
		return;
	bool was_listed = n->listed, was_ready = n->ready;
	n->listed = object != NULL;
	n->ready = false;
	cJSON_ArrayForEach(condition, json_member(json_member(object, "status"), "conditions")) {
		if (strcmp(object_text(condition, NULL, "type"), "Ready") == 0)
			n->ready = strcmp(object_text(condition, NULL, "status"), "True") == 0;
	}
	if (was_listed == n->listed && was_ready == n->ready)
		return;
	fleet_inventory(c, n, false);
	touch_jobs(c, name);
	node_release(c, n);
}

bool node_reachable(const controller *c, const char *name)
{
	const node *n = table_get(&c->nodes, name);
	return !c->cfg.nodes_listed || (n != NULL && n->listed && n->ready);
}

bool node_gone(const controller *c, const char *name)
{
	const node *n = table_get(&c->nodes, name);
	return c->cfg.nodes_listed && (n == NULL || !n->listed);
}

/* ---- presence ---- */

void epoch_seen(controller *c, int64_t epoch)
{
	/* Ours has to go above it and still be one. */
	if (epoch > c->seen_epoch && epoch < DOCUMENT_MAX_EPOCH)
		c->seen_epoch = epoch;
}

/* Epochs begin with the seconds since 1970. A node is not trusted with more than what this clock may be behind: one that could name any
 * number would make this agent use up all there are, for every node. */
static int epoch_claimed(const controller *c, const presence *p, error *err)
{
	int64_t most = c->now.unix_ms / 1000 + EPOCH_AHEAD_S;
	if (p->epoch <= c->seen_epoch || p->epoch <= most)
		return 0;
	return error_set(err, ERROR_INVALID, "presence: epoch %lld is more than ten years ahead of this machine's clock", (long long)p->epoch);
}

/* What a node remembers counts like what the broker retains: once, then less and less often, since each time everything is said anew. A node
 * that is not believed now says it again, as its birth is not answered. Those that come together count together. */
static void epoch_remembered(controller *c, int64_t epoch)
{
	int64_t now = c->now.mono_ms;
	bool pending = c->seen_epoch > c->epoch;
	if (epoch <= c->seen_epoch || (!pending && now < c->claim_until))
		return;
	if (!pending) {
		if (c->claim_at < 0 || now - c->claim_at >= RIVAL_CALM_MS)
			c->claim_delay = RIVAL_MIN_MS;
		else if ((c->claim_delay *= 2) > RIVAL_MAX_MS)
			c->claim_delay = RIVAL_MAX_MS;
		c->claim_until = now + c->claim_delay;
		c->claim_at = now;
	}
	epoch_seen(c, epoch);
}

void epoch_taken(controller *c, int64_t epoch)
{
	if (c->leading && epoch == c->epoch)
		epoch_seen(c, epoch + 1);
}

/* Another one is born while this one leads. Once may be a former life, or a leader that is deposed. Again means that two answer each other,
 * each above the other's epoch, for as long as they live: they do so later and later. */
static void seen_rival(controller *c, const presence *p)
{
	int64_t now = c->now.mono_ms;
	epoch_taken(c, p->epoch);
	if (now < c->rival_until)
		return;
	if (c->rival_at < 0 || now - c->rival_at >= RIVAL_CALM_MS) {
		c->rival_delay = 0;
	} else {
		if (c->rival_delay == 0)
			log_error("fleet", "another cloud agent publishes below the same topic root; there may be one for each broker and topicRoot",
				L_STR("topic_root", c->cfg.root), L_STR("its_session", p->session));
		c->rival_delay = c->rival_delay == 0 ? RIVAL_MIN_MS : 2 * c->rival_delay < RIVAL_MAX_MS ? 2 * c->rival_delay : RIVAL_MAX_MS;
		c->rival_until = now + jitter(c, c->rival_delay, 0.2);
	}
	c->rival_at = now;
}

static void seen_cloud(controller *c, const presence *p)
{
	if (p != NULL)
		epoch_seen(c, p->epoch);
	if (p != NULL && c->leading && p->online && p->session != NULL && strcmp(p->session, c->cfg.session) != 0)
		seen_rival(c, p);
	if (p == NULL || p->session == NULL || strcmp(p->session, c->cfg.session) != 0)
		c->birth_due = true; /* another one's, or nothing: while this one leads, its own belongs there */
}

static void presence_cleared(controller *c, const char *name)
{
	node *n = node_get(c, name, false);
	if (n == NULL || !n->present)
		return;
	n->present = n->online = false;
	free(n->session);
	n->session = NULL;
	if (n->offline_at < 0)
		n->offline_at = c->now.mono_ms;
	fleet_inventory(c, n, false);
	touch_jobs(c, name);
	node_release(c, n);
}

static void presence_seen(controller *c, node *n, const presence *p)
{
	bool new_session = n->session == NULL || p->session == NULL || strcmp(n->session, p->session) != 0;
	bool changed = !n->present || n->online != p->online;
	bool first = n->seen_link != c->links;
	epoch_remembered(c, p->epoch);
	n->seen_link = c->links;
	n->present = true;
	n->online = p->online;
	if (p->online)
		n->offline_at = -1;
	else if (n->offline_at < 0)
		n->offline_at = c->now.mono_ms;
	if (p->online && new_session) {
		free(n->session);
		n->session = mem_strdup(p->session);
	}
	/* After a connect of ours everything goes out anyway, and the birth that was retained comes back: that one tells nothing new. Every
	 * further one is a birth that was not answered, or whose answer was lost. */
	bool birth = p->online && (new_session || !first);
	n->unnamed |= birth;
	fleet_inventory(c, n, birth);
	if (changed)
		touch_jobs(c, n->name);
}

int fleet_presence(controller *c, const topic *t, const void *payload, size_t len, error *err)
{
	bool cloud = strcmp(t->node, PRESENCE_CLOUD) == 0;
	presence *p = NULL;
	if (len == 0) {
		if (cloud)
			seen_cloud(c, NULL);
		else
			presence_cleared(c, t->node);
		return 0;
	}
	int code = presence_decode(payload, len, &p, err);
	if (code != 0) {
		if (cloud)
			seen_cloud(c, NULL);
		return code;
	}
	if (strcmp(p->node, t->node) != 0)
		code = error_set(err, ERROR_INVALID, "presence: node %.80s was published under the topic of node %.80s", p->node, t->node);
	else if (cloud)
		seen_cloud(c, p);
	else if (epoch_claimed(c, p, err) != 0)
		code = err->code;
	else if (c->nodes.n >= NODES_MAX && node_get(c, t->node, false) == NULL)
		code = error_set(err, ERROR_LIMIT, "presence: more than %d nodes", NODES_MAX);
	else
		presence_seen(c, node_get(c, t->node, true), p);
	presence_free(p);
	return code;
}
