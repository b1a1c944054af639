/* The catalog: see catalog.h for the contract.
 *
 * Files are kept sorted by name. After a look that changed something the index is made again: all manifests sorted by identity, from which
 * those that occur twice are taken out into `doubles`. Both point into the files' manifests.
 * A broken file's manifests that were good are taken; that it is broken only keeps the rest of its objects from being removed. A file that
 * cannot be read at all keeps its last manifests too.
 */
#include "cloud-agent/cluster/local/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cloud-agent/cluster/local/objects.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"

typedef struct file_mark {
	struct timespec modified, changed;
	off_t size;
	ino_t inode;
	dev_t device;
} file_mark;

typedef struct source_file {
	char *name;
	file_mark mark;
	manifest_file content;
	bool read;     /* its bytes were had at least once */
	bool failed;   /* the last try to read it failed; tried again at each look */
	bool not_file; /* what has this name is no file */
	char *why;     /* failed: the reason, with its name */
} source_file;

enum { UNREAD_NAMED = 3 };

struct catalog {
	char *folder;
	source_file *files;
	size_t n_files;
	catalog_entry *entries, *doubles;
	size_t n_entries, n_doubles;
	char *doubles_told; /* the last message, so that it is said once */
	bool pending;       /* a change that was seen by a look that failed */
};

catalog *catalog_new(const char *folder)
{
	catalog *c = mem_alloc(sizeof *c);
	c->folder = mem_strdup(folder);
	c->doubles_told = mem_strdup("");
	return c;
}

static void source_file_fini(source_file *f)
{
	manifest_file_fini(&f->content);
	free(f->why);
	free(f->name);
}

void catalog_free(catalog *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->n_files; i++)
		source_file_fini(&c->files[i]);
	free(c->files);
	free(c->entries);
	free(c->doubles);
	free(c->doubles_told);
	free(c->folder);
	free(c);
}

/* ---- listing ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

bool catalog_is_manifest(const char *name)
{
	const char *dot = strrchr(name, '.');
	return name[0] != '.' && dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static void names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int list_names(const char *folder, char ***names, size_t *n, error *err)
{
	DIR *dir = opendir(folder);
	if (dir == NULL)
		return error_errno(err, errno, "cannot read the folder of manifests %s", folder);
	int code = 0;
	*names = NULL;
	*n = 0;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (entry == NULL) {
			if (errno != 0)
				code = error_errno(err, errno, "cannot read the folder of manifests %s", folder);
			break;
		}
		if (!catalog_is_manifest(entry->d_name))
			continue;
		if (*n == CATALOG_FILES_MAX) {
			code = error_set(err, ERROR_LIMIT, "the folder %s holds more than %d manifest files; nothing is taken from it", folder,
				CATALOG_FILES_MAX);
			break;
		}
		*names = mem_resize_array(*names, *n + 1, sizeof **names);
		(*names)[(*n)++] = mem_strdup(entry->d_name);
	}
	closedir(dir);
	if (code != 0)
		names_free(*names, *n);
	else if (*n > 0)
		qsort(*names, *n, sizeof **names, compare_names);
	return code;
}

/* ---- reading ---- */

static file_mark mark_of(const struct stat *st)
{
	return (file_mark){st->st_mtim, st->st_ctim, st->st_size, st->st_ino, st->st_dev};
}

static bool time_same(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool mark_same(const file_mark *a, const file_mark *b)
{
	return time_same(&a->modified, &b->modified) && time_same(&a->changed, &b->changed) && a->size == b->size && a->inode == b->inode &&
		a->device == b->device;
}

static void log_problems(const manifest_file *content)
{
	for (size_t i = 0; i < content->n_problems; i++) {
		const manifest_problem *p = &content->problems[i];
		if (p->warning)
			log_warn("local", "a manifest has something that is ignored", L_STR("at", p->text));
		else if (p->refused)
			log_error("local", "a job cannot be run here; it begins nothing until its manifest is mended", L_STR("error", p->text));
		else
			log_error("local", "a manifest has an error; what it described before stays as it was", L_STR("error", p->text));
	}
}

/* Said when it is new: each look tries again. */
static void file_failed(source_file *f, bool not_file, const error *err)
{
	bool told = f->failed && f->not_file == not_file && strcmp(f->why, err->text) == 0;
	if (!told && not_file)
		log_warn("local", "what is no file is passed over in the folder of manifests", L_STR("at", err->text));
	else if (!told)
		log_error("local", "a manifest cannot be read; what it described before stays as it was", L_STR("error", err->text));
	f->failed = true;
	f->not_file = not_file;
	free(f->why);
	f->why = mem_strdup(err->text);
	f->content.broken = true;
}

/* What the new content of a broken file lacks stays as the old content has it. Takes both. */
static void content_replace(source_file *f, manifest_file *content)
{
	size_t good = content->n;
	for (size_t i = 0; i < f->content.n && content->broken; i++) {
		manifest *m = &f->content.items[i];
		size_t k = 0;
		while (k < good &&
			(m->kind != content->items[k].kind || strcmp(m->ns, content->items[k].ns) != 0 || strcmp(m->name, content->items[k].name) != 0))
			k++;
		if (k < good)
			continue;
		content->items = mem_resize_array(content->items, content->n + 1, sizeof *m);
		content->items[content->n++] = *m;
		*m = (manifest){0};
	}
	manifest_file_fini(&f->content);
	f->content = *content;
}

static int file_check(const source_file *f, const char *path, struct stat *st, bool *not_file, error *err)
{
	if (stat(path, st) != 0)
		return error_errno(err, errno, "%s", f->name);
	*not_file = !S_ISREG(st->st_mode);
	if (*not_file)
		return error_set(err, ERROR_INVALID, "%s: is not a file", f->name);
	if (st->st_size > MANIFEST_FILE_MAX)
		return error_set(err, ERROR_LIMIT, "%s: has more than %d bytes", f->name, MANIFEST_FILE_MAX);
	return 0;
}

/* True if what it says may be different now. */
static bool file_look(source_file *f, const char *folder)
{
	char *path = mem_printf("%s/%s", folder, f->name);
	struct stat st;
	error err = {0};
	buf bytes = {0};
	bool changed = false, was_broken = f->content.broken, not_file = false;
	if (file_check(f, path, &st, &not_file, &err) != 0) {
		file_failed(f, not_file, &err);
		changed = !was_broken;
		goto free_path;
	}
	file_mark now = mark_of(&st);
	if (f->read && !f->failed && mark_same(&now, &f->mark))
		goto free_path;
	if (file_read(path, MANIFEST_FILE_MAX, &bytes, &err) != 0) {
		error_prefix(&err, "%s", f->name);
		file_failed(f, false, &err);
		changed = !was_broken;
	} else {
		manifest_file content;
		manifest_parse(f->name, buf_text(&bytes), bytes.len, &content);
		log_problems(&content);
		content_replace(f, &content);
		f->mark = now;
		f->read = changed = true;
		f->failed = f->not_file = false;
	}
free_path:
	buf_wipe(&bytes);
	free(path);
	return changed;
}

/* Both lists are sorted: files that are gone are dropped, new ones come in empty. */
static bool files_merge(catalog *c, char **names, size_t n)
{
	source_file *files = mem_alloc((n > 0 ? n : 1) * sizeof *files);
	size_t old = 0;
	bool changed = false;
	for (size_t i = 0; i < n; i++) {
		while (old < c->n_files && strcmp(c->files[old].name, names[i]) < 0) {
			source_file_fini(&c->files[old++]);
			changed = true;
		}
		if (old < c->n_files && strcmp(c->files[old].name, names[i]) == 0)
			files[i] = c->files[old++];
		else
			files[i].name = mem_strdup(names[i]);
	}
	for (; old < c->n_files; old++) {
		source_file_fini(&c->files[old]);
		changed = true;
	}
	free(c->files);
	c->files = files;
	c->n_files = n;
	return changed;
}

/* ---- index ---- */

static int compare_entries(const void *a, const void *b)
{
	const catalog_entry *x = a, *y = b;
	const manifest *m = x->manifest, *k = y->manifest;
	int order = object_key_compare(m->kind, m->ns, m->name, k->kind, k->ns, k->name);
	if (order != 0)
		return order;
	order = strcmp(x->source, y->source);
	return order != 0 ? order : (m->line > k->line) - (m->line < k->line);
}

static bool entry_is(const catalog_entry *e, enum object_kind kind, const char *ns, const char *name)
{
	return object_key_compare(e->manifest->kind, e->manifest->ns, e->manifest->name, kind, ns, name) == 0;
}

static void tell_doubles(catalog *c)
{
	buf all = {0};
	for (size_t i = 0; i < c->n_doubles;) {
		const manifest *m = c->doubles[i].manifest;
		buf text = {0};
		buf_printf(&text, "%s %s/%s:", manifest_kind(m->kind), m->ns, m->name);
		for (; i < c->n_doubles && entry_is(&c->doubles[i], m->kind, m->ns, m->name); i++)
			buf_printf(&text, " %s:%d", c->doubles[i].source, c->doubles[i].manifest->line);
		if (strstr(c->doubles_told, buf_text(&text)) == NULL)
			log_error("local", "an object is described more than once; none of the documents is taken", L_STR("error", buf_text(&text)));
		buf_printf(&all, "%s\n", buf_text(&text));
		buf_fini(&text);
	}
	free(c->doubles_told);
	c->doubles_told = buf_detach(&all);
}

static void index_make(catalog *c)
{
	size_t total = 0, n = 0;
	for (size_t i = 0; i < c->n_files; i++)
		total += c->files[i].content.n;
	free(c->entries);
	free(c->doubles);
	c->entries = mem_alloc((total > 0 ? total : 1) * sizeof *c->entries);
	c->doubles = mem_alloc((total > 0 ? total : 1) * sizeof *c->doubles);
	for (size_t i = 0; i < c->n_files; i++) {
		for (size_t k = 0; k < c->files[i].content.n; k++)
			c->entries[n++] = (catalog_entry){&c->files[i].content.items[k], c->files[i].name};
	}
	qsort(c->entries, n, sizeof *c->entries, compare_entries);
	c->n_entries = c->n_doubles = 0;
	for (size_t i = 0; i < n;) {
		const manifest *m = c->entries[i].manifest;
		size_t end = i + 1;
		while (end < n && entry_is(&c->entries[end], m->kind, m->ns, m->name))
			end++;
		if (end == i + 1) {
			c->entries[c->n_entries++] = c->entries[i];
		} else {
			memcpy(&c->doubles[c->n_doubles], &c->entries[i], (end - i) * sizeof *c->doubles);
			c->n_doubles += end - i;
		}
		i = end;
	}
	tell_doubles(c);
}

int catalog_look(catalog *c, bool *changed, error *err)
{
	char **names = NULL;
	size_t n = 0;
	*changed = false;
	int code = list_names(c->folder, &names, &n, err);
	if (code != 0)
		return code;
	bool any = files_merge(c, names, n);
	names_free(names, n);
	size_t total = 0;
	for (size_t i = 0; i < c->n_files; i++) {
		if (file_look(&c->files[i], c->folder))
			any = true;
		total += c->files[i].content.n;
	}
	if (any || c->entries == NULL)
		index_make(c);
	c->pending = c->pending || any;
	if (total > CATALOG_OBJECTS_MAX)
		return error_set(err, ERROR_LIMIT, "the folder %s describes more than %d objects; nothing is taken from it", c->folder,
			CATALOG_OBJECTS_MAX);
	*changed = c->pending;
	c->pending = false;
	return 0;
}

char *catalog_unread(const catalog *c)
{
	buf text = {0};
	size_t n = 0;
	for (size_t i = 0; i < c->n_files; i++) {
		const source_file *f = &c->files[i];
		if (f->read || f->not_file)
			continue;
		if (n++ < UNREAD_NAMED)
			buf_printf(&text, "%s%s", n > 1 ? "; " : "", f->why);
	}
	if (n > UNREAD_NAMED)
		buf_printf(&text, "; and %zu more", n - UNREAD_NAMED);
	char *out = n > 0 ? mem_strdup(buf_text(&text)) : NULL;
	buf_fini(&text);
	return out;
}

bool catalog_failing(const catalog *c)
{
	for (size_t i = 0; i < c->n_files; i++) {
		if (c->files[i].failed && !c->files[i].not_file)
			return true;
	}
	return false;
}

size_t catalog_entries(const catalog *c, const catalog_entry **entries)
{
	*entries = c->entries;
	return c->n_entries;
}

static const catalog_entry *find(const catalog_entry *entries, size_t n, enum object_kind kind, const char *ns, const char *name)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const manifest *m = entries[mid].manifest;
		int order = object_key_compare(m->kind, m->ns, m->name, kind, ns, name);
		if (order == 0)
			return &entries[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

bool catalog_keeps(const catalog *c, enum object_kind kind, const char *ns, const char *name, const char *source)
{
	if (find(c->doubles, c->n_doubles, kind, ns, name) != NULL)
		return true;
	for (size_t i = 0; i < c->n_files; i++) {
		if (strcmp(c->files[i].name, source) == 0)
			return c->files[i].content.broken;
	}
	return false;
}

const cJSON *catalog_secret(const catalog *c, const char *ns, const char *name)
{
	const catalog_entry *entry = find(c->entries, c->n_entries, OBJECT_SECRET, ns, name);
	return entry != NULL ? entry->manifest->data : NULL;
}
