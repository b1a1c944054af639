/* What the tests of deployments share: a folder with a model that is trained and targets for it, and what comes of it, as text.
 *
 * A fixture serves a file at `served`, evaluates against a folder at `eval`, and has a small file at the end. Trees are compared as a list of
 * names and texts; what tells of a version is left out of them and read by told_of. A test links with WRAP fsync: it costs nothing here.
 */
#ifndef TESTS_UNIT_DEPLOY_KIT_H
#define TESTS_UNIT_DEPLOY_KIT_H

#include "tests/unit/unit.h"

#include <dirent.h>

#include "edge-agent/storage/deploy.h"
#include "edge-agent/storage/version.h"
#include "tests/unit/fault_kit.h"

FAULT_FSYNC

typedef struct fixture {
	char *folder;
	char *out, *served, *eval, *config, *from, *from_eval;
	deploy_step steps[3];
} fixture;

/* Serving a file at `served`, evaluating against a folder at `eval`, and a small file at the end. */
static inline fixture *make_fixture(void)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->out = mem_printf("%s/out", f->folder);
	f->served = mem_printf("%s/serve/model.pb", f->folder);
	f->eval = mem_printf("%s/eval/model", f->folder);
	f->config = mem_printf("%s/hot/model_config.json", f->folder);
	f->from = mem_printf("%s/train/new.pb", f->folder);
	f->from_eval = mem_printf("%s/train/new", f->folder);
	f->steps[0] = (deploy_step){.to = f->served, .from = f->from};
	f->steps[1] = (deploy_step){.to = f->eval, .from = f->from_eval};
	f->steps[2] = (deploy_step){.to = f->config, .text = "{\"v\":1}"};
	return f;
}

static inline void free_fixture(fixture *f)
{
	unit_folder_remove(f->folder);
	free(f->out);
	free(f->served);
	free(f->eval);
	free(f->config);
	free(f->from);
	free(f->from_eval);
	free(f);
}

static inline void put(const char *path, const char *text)
{
	error err = {0};
	char *parent = file_parent(path);
	if (file_make_dirs(parent, 0755, &err) != 0 || file_write(path, text, strlen(text), 0644, &err) != 0)
		fail_msg("%s", err.text);
	free(parent);
}

/* The models that training made. */
static inline void train(fixture *f, const char *text)
{
	char *a = mem_printf("%s/a", f->from_eval), *b = mem_printf("%s/b", f->from_eval);
	put(f->from, text);
	put(a, text);
	put(b, text);
	free(a);
	free(b);
}

static inline void serve(fixture *f, const char *text)
{
	char *a = mem_printf("%s/a", f->eval);
	put(f->served, text);
	put(a, text);
	free(a);
}

static inline deploy_plan plan_of(fixture *f, int64_t round)
{
	return (deploy_plan){.output_dir = f->out, .round = round, .steps = f->steps, .n = 3};
}

static inline void deploy(fixture *f, int64_t round)
{
	deploy_plan plan = plan_of(f, round);
	model_info info;
	error err = {0};
	if (deploy_run(&plan, &info, &err) != 0)
		fail_msg("%s", err.text);
}

/* All names below a folder with the text of each file, one a line, sorted: "name=text", folders "name/". What tells of versions is left out. */
static inline void list(const char *path, const char *below, buf *out)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, VERSION_FILE) != 0) {
			char *child = mem_printf("%s/%s", path, name), *shown = mem_printf("%s%s%s", below, *below != '\0' ? "/" : "", name);
			buf text = {0};
			if (file_read(child, 1000, &text, NULL) == 0) {
				buf_printf(out, "%s=%s\n", shown, buf_text(&text));
			} else {
				buf_printf(out, "%s/\n", shown);
				list(child, shown, out);
			}
			buf_fini(&text);
			free(child);
			free(shown);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

static inline void assert_tree(const char *folder, const char *below, const char *expected)
{
	buf b = {0};
	char *path = mem_printf("%s/%s", folder, below);
	list(path, "", &b);
	assert_string_equal(buf_text(&b), expected);
	buf_fini(&b);
	free(path);
}

static inline version told_of(fixture *f, int round)
{
	char *folder = mem_printf("%s/deployed/%d", f->out, round);
	version v;
	error err = {0};
	if (version_read(folder, &v, &err) != 0)
		fail_msg("%d: %s", round, err.text);
	assert_int_equal(v.round, round);
	free(folder);
	return v;
}

/* What a plan goes back to: version `round`, whose model is called `name` and holds `text`. `from` is the caller's to free. */
typedef struct rollback {
	deploy_back back;
	char *from;
} rollback;

static inline rollback back_to(fixture *f, int round, const char *name, const char *text)
{
	rollback r = {.back.of = round, .from = mem_printf("%s/deployed/%d/%s", f->out, round, name)};
	digest_of(text, strlen(text), &r.back.sha256);
	return r;
}

#endif
