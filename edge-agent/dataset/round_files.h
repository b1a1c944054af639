/* The names below `data/train`: moving aside. */
#ifndef EDGE_DATASET_ROUND_FILES_H
#define EDGE_DATASET_ROUND_FILES_H

#include "edge-agent/dataset/round.h"

enum { ROUND_ASIDE_MAX = 1000 };

/* "{round}.aside-{uid8}-{n}"; to be freed. */
char *round_aside_name(int64_t round, const char *uid, int n);
/* Rename {round} to the first free {round}.aside-{uid8}-{n}. Not synced: the caller's next sync of the folder covers it. */
int round_files_move_aside(const char *train_dir, int64_t round, const char *uid, error *err);

#endif
