/* See move.h.
 *
 *   source has last         remove the target's last; copy all others, then last; see that all of it is there; remove the source's last, then the rest
 *   source without last     what is left of a move that was killed while it removed: see that all of it is at the target, and remove it
 *   source empty            it was done
 *
 * Without a `last` the first row is done for whatever is there.
 */
#include "transfer/move.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "transfer/copy.h"
#include "transfer/core/http_reply.h"
#include "transfer/crew.h"
#include "transfer/remove.h"
#include "transfer/store.h"

typedef struct pair {
	location from, to;
	int64_t size;
} pair;

static int object_below(const location *folder, const char *rest, location *out, error *err)
{
	char *key = mem_printf("%s%s", folder->key, rest);
	int code = location_object(folder->bucket, key, out, err);
	free(key);
	return code;
}

/* 1 or 0: is it there; or an error. */
static int is_there(client *c, const location *folder, const char *rest, object_head *head, error *err)
{
	location of;
	*head = (object_head){.size = -1};
	int code = object_below(folder, rest, &of, err);
	if (code == 0)
		code = store_head(c, &of, NULL, head, err);
	location_fini(&of);
	return code == 0 ? 1 : code == ERROR_NOT_FOUND ? 0 : code;
}

/* ---- copying ---- */

typedef struct copying {
	move *m;
	listing list;
} copying;

static int next_pair(void *ctx, void *item, error *err)
{
	copying *w = ctx;
	pair *p = item;
	const s3_object *o;
	const char *rest;
	int code;
	do {
		o = listing_next(&w->list, &code, err);
		if (o == NULL)
			return code;
		rest = o->key + strlen(w->m->from->key);
	} while (w->m->last != NULL && strcmp(rest, w->m->last) == 0);
	p->size = o->size;
	code = object_below(w->m->from, rest, &p->from, err);
	if (code == 0)
		code = object_below(w->m->to, rest, &p->to, err);
	if (code == 0)
		return 1;
	location_fini(&p->from);
	location_fini(&p->to);
	return code;
}

static int copy_pair(client *c, const location *from, const location *to, int64_t size, error *err)
{
	char etag[256];
	int code = copy_object(c, from, to, size, etag, err);
	if (code == ERROR_NOT_FOUND && strstr(err->text, "NoSuchKey") != NULL)
		code = error_set(err, ERROR_CONFLICT, "%s was removed while its folder was copied", from->shown);
	if (code == 0)
		atomic_fetch_add(&client_session(c)->files, 1);
	return code;
}

static int work_pair(void *ctx, client *c, void *item, error *err)
{
	pair *p = item;
	(void)ctx;
	int code = copy_pair(c, &p->from, &p->to, p->size, err);
	location_fini(&p->from);
	location_fini(&p->to);
	return code;
}

static int copy_last(client *c, const move *m, int64_t size, error *err)
{
	location from = {0}, to = {0};
	int code = object_below(m->from, m->last, &from, err);
	if (code == 0)
		code = object_below(m->to, m->last, &to, err);
	if (code == 0)
		code = copy_pair(c, &from, &to, size, err);
	location_fini(&from);
	location_fini(&to);
	return code;
}

static int remove_last(client *c, const location *folder, const char *last, error *err)
{
	location of;
	int code = object_below(folder, last, &of, err);
	if (code == 0)
		code = remove_object(c, &of, err);
	location_fini(&of);
	return code;
}

/* `size` is that of `last`. */
static int copy_all(client *c, move *m, int64_t size, error *err)
{
	session *s = client_session(c);
	copying w = {.m = m};
	crew_task task = {.ctx = &w, .item = sizeof(pair), .next = next_pair, .work = work_pair};
	object_head head;
	int code = m->last != NULL ? is_there(c, m->to, m->last, &head, err) : 0;
	if (code > 0)
		code = remove_last(c, m->to, m->last, err);
	if (code != 0)
		return code;
	listing_init(&w.list, c, m->from, m->from->key);
	code = crew_run(s, &task, err);
	listing_fini(&w.list);
	if (code == 0 && m->last != NULL)
		code = copy_last(c, m, size, err);
	m->copied = atomic_load(&s->files);
	return code;
}

static int check(const move *m, error *err)
{
	const location *a = m->from, *b = m->to;
	size_t n = strlen(a->key), k = strlen(b->key);
	if (strcmp(a->bucket, b->bucket) == 0 && strncmp(a->key, b->key, n < k ? n : k) == 0)
		return error_set(err, ERROR_INVALID, "%s and %s: one is below the other", a->shown, b->shown);
	return 0;
}

static int nothing_there(const move *m, error *err)
{
	if (m->last != NULL)
		return error_set(err, ERROR_NOT_FOUND, "%s has no object %.200s", m->from->shown, m->last);
	return error_set(err, ERROR_NOT_FOUND, "%s: there is no object below it", m->from->shown);
}

int move_copy(client *c, move *m, error *err)
{
	object_head head = {.size = 0};
	int code = check(m, err);
	if (code != 0)
		return code;
	int there = m->last != NULL ? is_there(c, m->from, m->last, &head, err) : 1;
	if (there <= 0)
		return there < 0 ? there : nothing_there(m, err);
	code = copy_all(c, m, head.size, err);
	return code == 0 && m->copied == 0 ? nothing_there(m, err) : code;
}

/* ---- removing what is at the target ---- */

static bool is_same(const move *m, const s3_object *o, int64_t size, const char *etag, bool not_md5)
{
	char a[33], b[33];
	if (o->size != size)
		return false;
	if (m->etag_is_no_md5 || not_md5 || o->etag == NULL || etag == NULL || !reply_etag_md5(o->etag, a) || !reply_etag_md5(etag, b))
		return true;
	return strcmp(a, b) == 0;
}

typedef struct comparing {
	client *c;
	const move *m;
	listing there;
	const s3_object *next; /* of it; NULL: it has ended */
} comparing;

/* Both lists are in the same order, so that the other one is only walked along; what is not found this way is asked for. */
static int check_there(comparing *w, const s3_object *o, error *err)
{
	const move *m = w->m;
	const char *rest = o->key + strlen(m->from->key);
	size_t below = strlen(m->to->key);
	object_head head;
	int code = 0;
	while (w->next != NULL && strcmp(w->next->key + below, rest) < 0) {
		w->next = listing_next(&w->there, &code, err);
		if (code != 0)
			return code;
	}
	if (w->next != NULL && strcmp(w->next->key + below, rest) == 0 && is_same(m, o, w->next->size, w->next->etag, false))
		return 0;
	code = is_there(w->c, m->to, rest, &head, err);
	if (code < 0)
		return code;
	if (code > 0 && is_same(m, o, head.size, head.etag, head.not_md5))
		return 0;
	return error_set(err, ERROR_CONFLICT, "%s: what is below %s as %.200s is not the same; nothing that is not there is removed",
		m->from->shown, m->to->shown, rest);
}

/* The next page of the source; 1: there was one. */
static int check_page(comparing *w, listing *l, error *err)
{
	int got = listing_page(l, err), code = 0;
	for (size_t i = 0; got > 0 && code == 0 && i < l->page.n; i++)
		code = check_there(w, &l->page.items[i], err);
	return code != 0 ? code : got;
}

static int begin_comparing(comparing *w, client *c, const move *m, error *err)
{
	int code;
	*w = (comparing){.c = c, .m = m};
	listing_init(&w->there, c, m->to, m->to->key);
	w->next = listing_next(&w->there, &code, err);
	return code;
}

/* Is all of the source at the target? *seen: objects of it. */
static int compare_all(client *c, const move *m, int64_t *seen, error *err)
{
	comparing w;
	listing l;
	int code = begin_comparing(&w, c, m, err), got = code == 0;
	*seen = 0;
	listing_init(&l, c, m->from, m->from->key);
	while (got > 0) {
		got = check_page(&w, &l, err);
		*seen += got > 0 ? (int64_t)l.page.n : 0;
	}
	listing_fini(&l);
	listing_fini(&w.there);
	return code != 0 ? code : got;
}

static int look(void *ctx, listing *l, error *err)
{
	return check_page(ctx, l, err);
}

static int remove_compared(client *c, const move *m, int64_t *removed, error *err)
{
	comparing w;
	int code = begin_comparing(&w, c, m, err);
	if (code == 0)
		code = remove_pages(c, m->from, look, &w, removed, err);
	listing_fini(&w.there);
	return code;
}

/* Nothing is left of the source: was it moved? */
static int was_moved(client *c, const move *m, error *err)
{
	object_head head;
	listing l;
	int there;
	if (m->last != NULL) {
		there = is_there(c, m->to, m->last, &head, err);
	} else {
		int code;
		listing_init(&l, c, m->to, m->to->key);
		there = listing_next(&l, &code, err) != NULL;
		listing_fini(&l);
		if (code != 0)
			return code;
	}
	return there < 0 ? there : there > 0 ? 0 : nothing_there(m, err);
}

/* The source has no `last`: it is what a killed move left, or nothing to be touched. */
static int check_rest(client *c, const move *m, int code, const char *why, error *err)
{
	object_head head;
	if (code == ERROR_CONFLICT)
		return error_set(err, ERROR_NOT_FOUND, "%s has no object %.100s, and is not what is left of a move: %.200s", m->from->shown,
			m->last, why);
	if (code != 0)
		return code;
	int there = is_there(c, m->to, m->last, &head, err);
	return there < 0 ? there : there > 0 ? 0 : nothing_there(m, err);
}

int move_folder(client *c, move *m, error *err)
{
	object_head head = {.size = 0};
	error why = {0};
	int64_t seen;
	int code = check(m, err);
	if (code != 0)
		return code;
	int whole = m->last != NULL ? is_there(c, m->from, m->last, &head, err) : 1;
	code = whole > 0 ? copy_all(c, m, head.size, err) : whole;
	if (code != 0)
		return code;
	code = compare_all(c, m, &seen, &why);
	if (code != 0)
		(void)error_set(err, code, "%s", why.text);
	if (whole == 0 && (code != 0 || seen > 0))
		code = check_rest(c, m, code, why.text, err);
	if (code == 0 && seen == 0)
		return was_moved(c, m, err);
	if (code == 0 && m->last != NULL)
		code = remove_last(c, m->from, m->last, err);
	if (code == 0)
		code = remove_compared(c, m, &m->removed, err);
	m->removed += code == 0 && whole > 0 && m->last != NULL;
	return code;
}
