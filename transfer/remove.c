/* See remove.h. What a page of a list names is removed with one request, and then the list is asked for from its beginning: what is there then is what
 * is left, whatever a store makes of a place in a list whose objects have gone. */
#include "transfer/remove.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"

int remove_check_key(const char *key, error *err)
{
	if (!s3_has_dots(key))
		return 0;
	return error_set(err, ERROR_UNSUPPORTED,
		"the key \"%.200s\" has a part \".\" or \"..\", which something on the way could take for another object; nothing is done with it",
		key);
}

int remove_object(client *c, const location *of, error *err)
{
	request q = REQUEST("DELETE", of);
	reply r;
	q.permission = "s3:DeleteObject";
	int code = remove_check_key(of->key, err);
	if (code != 0)
		return code;
	code = client_call(c, &q, &r, NULL, err);
	if (code == ERROR_NOT_FOUND && strcmp(r.error.code, "NoSuchKey") == 0)
		code = 0;
	else if (code == 0 && r.body.len > 0)
		code = error_set(err, ERROR_CORRUPT, "%s: the answer has a text, so it does not come from a store for S3", of->shown);
	reply_fini(&r);
	return code;
}

/* ---- many at once ---- */

static int digests(const buf *body, request *q, char md5[32], error *err)
{
	unsigned char value[EVP_MAX_MD_SIZE];
	digest d;
	digest_of(body->data, body->len, &d);
	digest_hex(&d, q->sha256);
	/* Stores want it, whatever else is signed. */
	if (EVP_Digest(body->data, body->len, value, NULL, EVP_md5(), NULL) != 1)
		return error_set(err, ERROR_UNSUPPORTED, "this machine's OpenSSL lacks MD5, which a store wants for a removal");
	EVP_EncodeBlock((unsigned char *)md5, value, 16);
	return 0;
}

/* What one of them says, as if it were the answer to a request of its own. */
static verdict judge_one(const s3_error *why)
{
	bool busy =
		strcmp(why->code, "InternalError") == 0 || strcmp(why->code, "SlowDown") == 0 || strcmp(why->code, "ServiceUnavailable") == 0;
	return reply_judge(busy ? 500 : strcmp(why->code, "AccessDenied") == 0 ? 403 : 400, why->code);
}

static int judge(const location *of, const reply *r, bool *retry, error *err)
{
	s3_error why;
	char *key;
	int code = s3_removed_parse(buf_text(&r->body), r->body.len, &key, &why, err);
	if (code != 0)
		return error_prefix(err, "%s", of->shown);
	if (key != NULL) {
		verdict v = judge_one(&why);
		*retry = v.retry;
		code = error_set(err, v.code, "%s: the store does not remove %.200s: %s %s", of->shown, key, why.code, why.message);
	}
	free(key);
	return code;
}

static int post(client *c, const location *of, const buf *body, bool *one_by_one, error *err)
{
	s3_query query[] = {{"delete", NULL}};
	request q = REQUEST("POST", of);
	attempts tries = {0};
	char md5[32];
	bool again = true;
	q.bucket = q.has_body = true;
	q.query = query;
	q.n_query = 1;
	q.memory = body->data;
	q.len = (int64_t)body->len;
	q.body_max = S3_PAGE_MAX;
	q.permission = "s3:DeleteObject";
	q.content_md5 = md5;
	int code = digests(body, &q, md5, err);
	while (code == 0 && again) {
		reply r;
		bool retry;
		code = client_once(c, &q, &r, &retry, err);
		*one_by_one = code == ERROR_UNSUPPORTED && (r.status == 501 || r.status == 405);
		if (code == 0)
			code = judge(of, &r, &retry, err);
		again = code != 0 && client_again(c, &tries, code, retry, &r, err);
		reply_fini(&r);
		if (again)
			code = 0;
	}
	return code;
}

static int remove_alone(client *c, const location *of, const s3_object *objects, size_t n, bool all, error *err)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < n; i++) {
		location one;
		if (!all && s3_key_fits_xml(objects[i].key))
			continue;
		code = location_object(of->bucket, objects[i].key, &one, err);
		if (code == 0)
			code = remove_object(c, &one, err);
		location_fini(&one);
	}
	return code;
}

int remove_objects(client *c, const location *of, const s3_object *objects, size_t n, error *err)
{
	buf body = {0};
	size_t fit = 0;
	bool one_by_one = false;
	int code = 0;
	for (size_t i = 0; code == 0 && i < n; i++)
		code = remove_check_key(objects[i].key, err);
	if (code != 0)
		return code;
	buf_puts(&body, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
	for (size_t i = 0; i < n; i++) {
		if (!s3_key_fits_xml(objects[i].key))
			continue;
		buf_puts(&body, "<Object><Key>");
		s3_put_xml(&body, objects[i].key);
		buf_puts(&body, "</Key></Object>");
		fit++;
	}
	buf_puts(&body, "</Delete>");
	if (fit > 0)
		code = post(c, of, &body, &one_by_one, err);
	if (code == 0 || one_by_one)
		code = remove_alone(c, of, objects, n, one_by_one, err);
	buf_fini(&body);
	return code;
}

/* ---- a folder ---- */

typedef struct removing {
	client *c;
	const location *of;
	int (*next)(void *ctx, listing *l, error *err);
	void *ctx;
	char *first; /* key of the page before */
	bool stuck;  /* it is there again */
	int64_t removed;
} removing;

/* The first page of what is there. 1: it was removed; 0: nothing is there. */
static int remove_page(removing *w, error *err)
{
	listing l;
	listing_init(&l, w->c, w->of, w->of->key);
	int got;
	do
		got = w->next(w->ctx, &l, err);
	while (got > 0 && l.page.n == 0);
	if (got > 0) {
		w->stuck = w->first != NULL && strcmp(w->first, l.page.items[0].key) == 0;
		mem_replace(&w->first, l.page.items[0].key);
		int code = remove_objects(w->c, w->of, l.page.items, l.page.n, err);
		got = code == 0 ? 1 : code;
		if (code == 0 && !w->stuck)
			w->removed += (int64_t)l.page.n;
	}
	listing_fini(&l);
	return got;
}

int remove_pages(client *c, const location *of, int (*next)(void *ctx, listing *l, error *err), void *ctx, int64_t *removed, error *err)
{
	removing w = {.c = c, .of = of, .next = next, .ctx = ctx};
	attempts tries = {0};
	int got;
	do {
		w.stuck = false;
		got = remove_page(&w, err);
		if (got <= 0 || !w.stuck)
			continue;
		/* A store may still list for a while what it has removed. */
		reply none = {0};
		error why = {0};
		int code = error_set(&why, ERROR_OFFLINE, "%s: the store still lists what it says it has removed", of->shown);
		if (!client_again(c, &tries, code, true, &none, &why))
			got = cancelled() ? error_set(err, ERROR_CANCELLED, "%s: stopped on request", of->shown) : error_set(err, code, "%s", why.text);
	} while (got > 0);
	*removed = w.removed;
	free(w.first);
	return got;
}

static int any_page(void *ctx, listing *l, error *err)
{
	(void)ctx;
	return listing_page(l, err);
}

int remove_folder(client *c, const location *of, const char *first, int64_t *removed, error *err)
{
	int code = 0;
	*removed = 0;
	if (first != NULL) {
		location one;
		char *key = mem_printf("%s%s", of->key, first);
		code = location_object(of->bucket, key, &one, err);
		if (code == 0)
			code = remove_object(c, &one, err);
		location_fini(&one);
		free(key);
	}
	return code == 0 ? remove_pages(c, of, any_page, NULL, removed, err) : code;
}
