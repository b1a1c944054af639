/* The core's file actions, done in libuv's pool: datasets are looked at and located, rounds written, models deployed.
 *
 * A dataset file is watched (inotify, and a slow look besides) and has one scanner, whose work is done one piece at a time, in order. Work
 * that needs no scanner runs beside. A remote dataset has a copy here (remote/mirror.h), and is looked at now and then. Work that goes over the network
 * may take hours: of that only a few pieces run at a time, the others wait for their turn, and local work is never behind them. The prefix of the node's root is put before every path here and nowhere else. Loop thread only.
 */
#ifndef EDGE_FILES_H
#define EDGE_FILES_H

#include <uv.h>

#include "edge-agent/core/agent.h"
#include "edge-agent/store/store.h"

typedef struct files files;

typedef struct files_config {
	const char *root_dir; /* "" or NULL: none */
	int64_t line_max, look_ms;
	int64_t rounds_kept; /* 0: all */
	int deployed_kept;
	const char *remote_dir;       /* for what stands for remote things (remote/folders.h) */
	const char *transfer_program; /* ilmare-transfer */
	store *store;                 /* how far files were read is kept there */
} files_config;

typedef struct files_events {
	void *ctx;
	void (*view)(void *ctx, const char *url, enum dataset_format format, const dataset_view *view);
	void (*done)(void *ctx, uint64_t id, const edge_result *result);
	/* Asked before work with something remote begins: edge_agent_credential_for. */
	enum credential_state (*keys)(void *ctx, const char *uid, const char *url, credential_keys *out);
} files_events;

files *files_new(uv_loop_t *loop, const files_config *config, const files_events *events);
/* Watch the files that the core lists, and no others. */
void files_sync(files *f, const edge_agent *agent);
/* Keys came or changed: what could not be read without them is looked at again. */
void files_keys_changed(files *f);
/* LOCATE, MEASURE, LOOK, WRITE, WRITE_EVAL or DEPLOY; what the action points to is copied. `done` follows, never from inside. */
void files_perform(files *f, const edge_action *action);
/* Give up what runs, close what is on the loop; no `done` follows. It frees itself after its last handle is closed. */
void files_stop(files *f);

#endif
