/* See source.h. */
#include "edge-agent/source.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/file_work.h"
#include "edge-agent/remote/folders.h"
#include "proto/url.h"

enum { SAVE_BYTES = 4 * 1024 * 1024 };

static void restore(source *s)
{
	char *state;
	error err = {0};
	scan_view v;

	if (store_scan_load(s->config->store, s->url, s->format, &state, &err) != 0) {
		log_warn("dataset", "cannot read how far the file was read", L_STR("url", s->url), L_STR("error", err.text));
		return;
	}
	if (state && scanner_restore(s->scanner, state, strlen(state), &err) != 0)
		log_warn("dataset", "what was stored about the file cannot be used; it is read from its beginning", L_STR("url", s->url),
			L_STR("error", err.text));
	free(state);
	scanner_view(s->scanner, &v);
	s->saved_size = v.end.size;
	s->saved_generation = v.generation;
}

static void set_mirror(source *s)
{
	char *dir = mem_printf("%s/datasets", s->config->remote_dir);

	s->folder = remote_folder(dir, s->url, dataset_format_name(s->format));
	s->mirror = mem_printf("%s/data", s->folder);
	scanner_set_file(s->scanner, s->mirror);
	free(dir);
}

void source_open(source *s, const files_config *config, const char *url, enum dataset_format format)
{
	s->config = config;
	s->url = mem_strdup(url);
	s->format = format;
	s->scanner = scanner_new(url, format, config->line_max);
	scanner_set_root(s->scanner, config->root_dir);
	if (url_is_remote(url))
		set_mirror(s);
	restore(s);
}

void source_close(source *s)
{
	scanner_free(s->scanner);
	free(s->mirror);
	free(s->folder);
	free(s->url);
}

static void save(const source *s)
{
	buf text = {0};
	error err = {0};

	scanner_save(s->scanner, &text);
	if (store_scan_save(s->config->store, s->url, s->format, buf_text(&text), &err) != 0)
		log_warn("dataset", "cannot store how far the file was read; it is read again after a restart", L_STR("url", s->url),
			L_STR("error", err.text));
	buf_fini(&text);
}

/* Reading a little again after a restart costs nothing; writing at every append wears out flash. */
void source_save(source *s, const scan_view *v, bool always)
{
	bool far = v->end.size - s->saved_size >= SAVE_BYTES || v->generation != s->saved_generation;

	if (v->code != 0 || v->more || !(far || (always && v->end.size != s->saved_size)))
		return;
	save(s);
	s->saved_size = v->end.size;
	s->saved_generation = v->generation;
}

/* Nothing is left out without a word; the log's own limit is what keeps a file of such lines from filling it. */
static void say_skipped(source *s, const scan_view *v)
{
	if (v->skipped > s->said_skipped)
		log_warn("dataset", "lines longer than dataset.lineMax are left out", L_STR("url", s->url), L_INT("left_out", v->skipped),
			L_INT("line_max", s->config->line_max), L_INT("up_to_byte", v->file_size));
	s->said_skipped = v->skipped;
}

dataset_view source_view(source *s, const scan_view *v, char **problem)
{
	say_skipped(s, v);
	*problem = mem_strdup(v->code ? v->error : NULL);
	if (*problem)
		file_work_hide_root(s->config->root_dir, *problem);
	return (dataset_view){.looked = true,
		.generation = v->generation,
		.samples = v->end.samples,
		.size = v->end.size,
		.waiting_bytes = v->waiting_bytes,
		.skipped = v->skipped,
		.changed_ms = v->changed_ms,
		.error = *problem};
}
