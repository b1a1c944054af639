/* What the tests of the scanner share: a file to look at, finding a cursor in it, and a restart of the agent. */
#ifndef TESTS_UNIT_SCANNER_KIT_H
#define TESTS_UNIT_SCANNER_KIT_H

#include "tests/unit/dataset_kit.h"

typedef struct fixture {
	char *folder, *path;
} fixture;

static inline int kit_setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->path = mem_printf("%s/ds", f->folder);
	*state = f;
	return 0;
}

static inline int kit_teardown(void **state)
{
	fixture *f = *state;
	unit_folder_remove(f->folder);
	free(f->path);
	free(f);
	return 0;
}

static inline enum locate_result kit_locate(scanner *s, const dataset_point *p, dataset_point *out)
{
	enum locate_result result;
	error err = {0};
	if (scanner_locate(s, p->size, &p->digest, 64, &result, out, &err) != 0)
		fail_msg("%s", err.text);
	return result;
}

/* Until it is known. */
static inline enum locate_result kit_locate_all(scanner *s, const dataset_point *p, dataset_point *out)
{
	enum locate_result result;
	while ((result = kit_locate(s, p, out)) == LOCATE_MORE) {
		scan_view v;
		scanner_view(s, &v);
		if (!v.looked || v.more)
			(void)scanner_look(s, 256);
	}
	return result;
}

static inline scanner *kit_restarted(const char *path, enum dataset_format format, scanner *old)
{
	buf text = {0};
	error err = {0};
	scanner_save(old, &text);
	scanner_free(old);
	scanner *s = scanner_new(path, format, LINE_MAX_DEFAULT);
	if (scanner_restore(s, buf_text(&text), text.len, &err) != 0)
		fail_msg("%s in %s", err.text, buf_text(&text));
	buf_fini(&text);
	return s;
}

#endif
