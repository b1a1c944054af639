/* A deployment of which something is remote: the model comes from an object store or a web server, goes to a store, or its versions are kept there.
 *
 * What is remote is fetched into a folder of this device, the deployment is run as any other (storage/deploy.h), and what belongs to a store is sent
 * there in the deployment's order: versions first, each with version.json last, which makes it exist; then the models that are served. An object is
 * replaced as a whole. A model that is a folder is sent file by file: a store has no way to replace a folder at once, which is said in the log.
 *
 * Blocking; any thread that may; one at a time for one output folder.
 */
#ifndef EDGE_REMOTE_SHIP_H
#define EDGE_REMOTE_SHIP_H

#include "edge-agent/remote/transfer.h"
#include "edge-agent/storage/deploy.h"

/* Run the plan, whose output_dir, `from` and `to` may be urls; served and remote are not looked at. `scratch` is a folder of this device for it, which
 * is gone after success; after a failure it may hold what can be gone on with. *versions as deploy_versions says, of wherever they are kept. */
int ship_run(const deploy_plan *plan, const transfer *t, const char *scratch, model_info *out, deploy_version **versions,
	size_t *n_versions, error *err);

#endif
