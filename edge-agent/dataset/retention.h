/* Old rounds: the folders with the samples of rounds that nothing needs any more. */
#ifndef EDGE_DATASET_RETENTION_H
#define EDGE_DATASET_RETENTION_H

#include <stdint.h>

/* Remove `{outputDir}/data/train/{n}` and `data/eval/{n}` of all rounds n below `below`. Of the train folders only those whose manifest says that
 * they hold round n of this job, and the eval folder with its train folder; whatever else is there is somebody's own. A folder is renamed before it
 * is taken apart, so that none is ever half there under its name. What cannot be removed stays until the next time, and is logged. Real paths;
 * blocking; any thread, one call at a time per output_dir. */
void rounds_remove_before(const char *output_dir, const char *uid, int64_t below);

#endif
