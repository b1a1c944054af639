/* The inventory: the uids of the jobs and datasets that a node should have. */
#include "proto/document_internal.h"

int inventory_decode(const char *data, size_t len, inventory **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "inventory", data, len, err);
	inventory *inv = arena_alloc(r.mem, sizeof(*inv));
	int code;

	inv->mem = r.mem;
	inv->ts = read__ts(&r, root, "inventory", NEEDED);
	inv->stamp = read__stamp(&r, root, "inventory");
	inv->node = read__node(&r, root, "inventory");
	inv->session = read__word(&r, root, "inventory", "session", OPTIONAL, TEXT_MAX_WORD);
	/* A list that is missing must not be taken for an empty one, which empties the node. */
	inv->jobs = read__strings(&r, root, "inventory", "jobs", NEEDED, DOCUMENT_MAX_INVENTORY, uid_valid, &inv->n_jobs);
	inv->datasets = read__strings(&r, root, "inventory", "datasets", NEEDED, DOCUMENT_MAX_INVENTORY, uid_valid, &inv->n_datasets);
	code = read__end(&r);
	*out = code == 0 ? inv : NULL;
	return code;
}

char *inventory_encode(const inventory *inv)
{
	cJSON *root = write__begin(inv->ts);

	write__stamp(root, inv->stamp);
	json_put_string(root, "node", inv->node);
	json_put_string(root, "session", inv->session);
	write__strings(root, "jobs", inv->jobs, inv->n_jobs);
	write__strings(root, "datasets", inv->datasets, inv->n_datasets);
	return write__end(root);
}

void inventory_free(inventory *inv)
{
	if (inv != NULL)
		arena_free(inv->mem);
}
