/* See download.h for the contract.
 *
 * An attempt that broke off goes on where it ended, if the source has a strong ETag: the next request asks for the rest of that version and no other
 * (Range and If-Match). What comes is checked by the length that was announced, and by the ETag of a store where that is an MD5.
 */
#include "transfer/download.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
#include "transfer/download_internal.h"
#include "transfer/follower.h"
#include "transfer/sink.h"
#include "transfer/store.h"

enum { CHANGES_MAX = 5, DAMAGES_MAX = 3, FOLLOW_STEP = 1024 * 1024 };

typedef struct fetching {
	client *c;
	download *d;
	sink to;
	int64_t asked_from, best;
	bool not_md5;
	follower *behind; /* NULL: not begun */
	int64_t told;     /* what it may read */
} fetching;

static void stop_following(fetching *f)
{
	follower_free(f->behind);
	f->behind = NULL;
	f->told = 0;
}

/* ---- is it whole and right ---- */

/* What its digest has to be, and which one; NULL: that is not known. */
static const char *expected_digest(const fetching *f, char md5[33], const char **name)
{
	const download *d = f->d;
	*name = d->sha256 != NULL ? "SHA256" : "MD5";
	if (d->sha256 != NULL)
		return d->sha256;
	return d->of->kind == LOCATION_S3 && !f->not_md5 && !d->etag_is_no_md5 && reply_etag_md5(d->etag, md5) ? md5 : NULL;
}

/* A large file is read behind its writing, in steps of a MiB. */
static void follow(fetching *f)
{
	char md5[33];
	const char *name;
	if (f->behind == NULL && f->to.size >= SINK_PART_FROM && expected_digest(f, md5, &name) != NULL)
		f->behind = follower_new(f->to.fd, name);
	if (f->behind != NULL && f->to.have - f->told >= FOLLOW_STEP) {
		f->told = f->to.have;
		follower_allow(f->behind, f->told);
	}
}

static int check_digest(fetching *f, error *err)
{
	const download *d = f->d;
	char md5[33], hex[FOLLOWER_HEX];
	const char *name, *expected = expected_digest(f, md5, &name);
	if (expected == NULL)
		return 0;
	if (f->behind == NULL)
		f->behind = follower_new(f->to.fd, name);
	int code = follower_end(f->behind, f->to.have, hex, d->path, err);
	if (code == 0 && strcmp(hex, expected) != 0)
		code = error_set(err, ERROR_CORRUPT, "%s: the %s of what came is %s, and should be %s", d->of->shown, name, hex, expected);
	return code;
}

static int check_whole(fetching *f, error *err)
{
	const download *d = f->d;
	if (f->to.size >= 0 && f->to.have != f->to.size)
		return error_set(err, ERROR_CORRUPT, "%s: %" PRId64 " bytes came of the %" PRId64 " that were announced", d->of->shown, f->to.have,
			f->to.size);
	return check_digest(f, err);
}

/* ---- what comes ---- */

static bool is_page_name(const char *url)
{
	size_t len = strcspn(url, "?#");
	return (len > 5 && strncasecmp(url + len - 5, ".html", 5) == 0) || (len > 4 && strncasecmp(url + len - 4, ".htm", 4) == 0);
}

int download__check_head(const location *of, const reply *r, error *err)
{
	if (of->kind == LOCATION_S3 && !r->of_store)
		return error_set(err, ERROR_CORRUPT,
			"%s: the answer has neither an ETag nor another header of a store, so it does not come from a store for S3; is something in "
			"between, "
			"or S3_ENDPOINT_URL another server's",
			of->shown);
	if (of->kind == LOCATION_HTTP && strncasecmp(r->type, "text/html", 9) == 0 && !is_page_name(of->text))
		return error_set(err, ERROR_CORRUPT,
			"%s: the server answers with a page (text/html) in place of the file; does the url lead to the file "
			"itself, and is no sign-in in between",
			of->shown);
	if (r->length < 0 && !r->chunked)
		return error_set(err, ERROR_CORRUPT, "%s: the server does not say how long it is, so nobody could see that the end is missing",
			of->shown);
	return 0;
}

static int check_size(const download *d, int64_t size, error *err)
{
	return d->max_size > 0 && size > d->max_size ?
		error_set(err, ERROR_LIMIT, "%s: it has more than %" PRId64 " bytes", d->of->shown, d->max_size) :
		0;
}

static int on_head(void *ctx, const reply *r, error *err)
{
	fetching *f = ctx;
	download *d = f->d;
	int code = download__check_head(d->of, r, err);
	if (code == 0)
		code = check_size(d, r->status == 206 ? r->total : r->length, err);
	if (code != 0)
		return code;
	f->not_md5 = r->not_md5;
	(void)snprintf(d->modified, sizeof d->modified, "%s", r->modified);
	if (r->status == 206 && f->asked_from > 0) {
		if (r->from != f->to.have || (f->to.size >= 0 && r->total >= 0 && r->total != f->to.size) ||
			(r->etag[0] != '\0' && strcmp(r->etag, f->to.etag) != 0))
			return error_set(err, ERROR_CHANGED, "%s: the rest that was asked for is not what came", d->of->shown);
		return 0;
	}
	if (r->status != 200)
		return error_set(err, ERROR_UNSUPPORTED, "%s: the server sends a part, and all was asked for", d->of->shown);
	/* All of it, also where the rest was asked for. */
	atomic_fetch_sub(&client_session(f->c)->bytes, f->to.have);
	d->resumed_at = 0;
	(void)snprintf(d->etag, sizeof d->etag, "%s", r->etag);
	if (r->length > 0)
		atomic_store(&client_session(f->c)->size, r->length);
	stop_following(f);
	return sink_begin(&f->to, r->etag, r->length, err);
}

static int on_data(void *ctx, const char *data, size_t len, error *err)
{
	fetching *f = ctx;
	int code = check_size(f->d, f->to.have + (int64_t)len, err);
	if (code == 0)
		code = sink_write(&f->to, data, len, err);
	if (code != 0)
		return code;
	atomic_fetch_add(&client_session(f->c)->bytes, (int64_t)len);
	follow(f);
	return 0;
}

static void start_over(fetching *f)
{
	stop_following(f);
	atomic_fetch_sub(&client_session(f->c)->bytes, f->to.have);
	sink_reset(&f->to);
}

int64_t download__size_now(client *c, const location *of, const reply *r)
{
	object_head head;
	if (r->total >= 0)
		return r->total;
	return store_head(c, of, NULL, &head, NULL) == 0 ? head.size : -1;
}

/* ---- attempts ---- */

/* One request. *retry: it may be otherwise the next time; *whole: all is there. */
static int attempt(fetching *f, reply *r, bool *retry, bool *whole, error *err)
{
	request q = REQUEST("GET", f->d->of);
	f->asked_from = f->to.have > 0 && f->to.etag[0] != '\0' ? f->to.have : 0;
	if (f->to.have > 0 && f->asked_from == 0)
		start_over(f);
	q.from = f->asked_from;
	q.if_match = q.from > 0 ? f->to.etag : NULL;
	q.permission = "s3:GetObject";
	q.ctx = f;
	q.on_head = on_head;
	q.on_data = on_data;
	int code = client_once(f->c, &q, r, retry, err);
	*whole = code == 0;
	if (r->status == 416 && q.from > 0) {
		*whole = f->to.have == f->to.size && download__size_now(f->c, f->d->of, r) == f->to.have;
		code = *whole ? 0 : ERROR_CHANGED;
	}
	return code;
}

static int fetch(fetching *f, error *err)
{
	attempts a = {0};
	int changes = 0, damages = 0;
	for (;;) {
		reply r;
		bool retry, whole;
		int code = attempt(f, &r, &retry, &whole, err);
		if (whole) {
			code = check_whole(f, err);
			if (code != 0)
				start_over(f);
		}
		if (code == 0) {
			reply_fini(&r);
			return 0;
		}
		/* Another version than the one that was begun: from the start. */
		bool again = code == ERROR_CHANGED && ++changes < CHANGES_MAX && f->asked_from > 0;
		if (again)
			start_over(f);
		if (f->to.have > f->best) {
			f->best = f->to.have;
			a.failures = 0;
		}
		if (code == ERROR_CORRUPT) {
			start_over(f);
			retry = ++damages < DAMAGES_MAX;
		}
		again = again || client_again(f->c, &a, code, retry, &r, err);
		reply_fini(&r);
		if (cancelled())
			return error_set(err, ERROR_CANCELLED, "%s: stopped on request", f->d->of->shown);
		if (!again)
			return code;
	}
}

int download_file(client *c, download *d, error *err)
{
	fetching f = {.c = c, .d = d, .best = -1};
	int code = sink_open(&f.to, d->path, d->of->text, d->fresh, err);
	if (code == 0 && f.to.have > 0) {
		d->resumed_at = f.to.have;
		(void)snprintf(d->etag, sizeof d->etag, "%s", f.to.etag);
		atomic_fetch_add(&client_session(c)->bytes, f.to.have);
		atomic_store(&client_session(c)->size, f.to.size);
		log_info("get", "going on with a part", L_STR("file", d->path), L_INT("at", f.to.have));
	}
	if (code == 0)
		code = fetch(&f, err);
	stop_following(&f);
	if (code == 0) {
		d->size = f.to.have;
		code = sink_commit(&f.to, d->durable, err);
	}
	/* A part is worth keeping, but not on a disk that is full. */
	if (code == ERROR_NO_SPACE)
		sink_reset(&f.to);
	sink_close(&f.to);
	return code;
}
