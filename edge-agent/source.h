/* A dataset as the shell holds it: the scanner that reads it, and where its bytes are; how far it was read is kept in the store. Loop thread, but for
 * the scanner's own calls. */
#ifndef EDGE_SOURCE_H
#define EDGE_SOURCE_H

#include "edge-agent/dataset/scanner.h"
#include "edge-agent/files.h"

typedef struct source {
	const files_config *config;
	char *url;
	enum dataset_format format;
	char *folder, *mirror; /* remote: the folder and file of its copy (remote/mirror.h); NULL: local */
	scanner *scanner;
	int64_t saved_size, saved_generation;
	int64_t said_skipped; /* lines left out, as the log said last */
} source;

/* Goes on where the store says. `config` has to live as long. */
void source_open(source *s, const files_config *config, const char *url, enum dataset_format format);
void source_close(source *s);
/* Into the store, if much was read since; `always`: if anything was. */
void source_save(source *s, const scan_view *v, bool always);
/* As the core wants to hear it. *problem: the text that the view's error points to, to be freed. */
dataset_view source_view(source *s, const scan_view *v, char **problem);

#endif
