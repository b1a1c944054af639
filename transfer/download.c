/* See download.h for the contract.
 *
 * An attempt that broke off goes on where it ended, if the source has a strong ETag: the next request asks for the rest of that version and no other
 * (Range and If-Match). What comes is checked by the length that was announced, and by the ETag of a store where that is an MD5.
 */
#include "transfer/download.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
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

/* Is it what was asked for, and will its end be seen? */
static int check_head(const location *of, const reply *r, error *err)
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

static int on_head(void *ctx, const reply *r, error *err)
{
	fetching *f = ctx;
	download *d = f->d;
	int code = check_head(d->of, r, err);
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
	int code = sink_write(&f->to, data, len, err);
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

/* How long it is, where an answer says only that there is nothing behind what was asked for. -1: that cannot be found out. */
static int64_t size_now(client *c, const location *of, const reply *r)
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
		*whole = f->to.have == f->to.size && size_now(f->c, f->d->of, r) == f->to.have;
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

/* ---- what was appended ---- */

typedef struct appending {
	client *c;
	download *d;
	int fd;
	int64_t have;
	char pinned[256];
} appending;

static int append_head(void *ctx, const reply *r, error *err)
{
	appending *a = ctx;
	download *d = a->d;
	int code = check_head(d->of, r, err);
	if (code != 0)
		return code;
	if (a->have > 0 && r->status != 206)
		return error_set(err, ERROR_UNSUPPORTED, "%s: the server sends no parts, only all of it", d->of->shown);
	if (r->status == 206 && r->from != a->have)
		return error_set(err, ERROR_CORRUPT, "%s: the server sends another part than the one asked for", d->of->shown);
	if (a->pinned[0] != '\0' && r->etag[0] != '\0' && strcmp(a->pinned, r->etag) != 0)
		return error_set(err, ERROR_CHANGED, "%s: it is another version, %s", d->of->shown, r->etag);
	if (a->pinned[0] == '\0' && reply_etag_strong(r->etag))
		(void)snprintf(a->pinned, sizeof a->pinned, "%s", r->etag);
	(void)snprintf(d->etag, sizeof d->etag, "%s", r->etag);
	(void)snprintf(d->modified, sizeof d->modified, "%s", r->modified);
	atomic_store(&client_session(a->c)->size, r->status == 206 ? r->total : r->length);
	return 0;
}

static int append_data(void *ctx, const char *data, size_t len, error *err)
{
	appending *a = ctx;
	while (len > 0) {
		ssize_t n = write(a->fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sink_errno(err, errno, a->d->path);
		data += n;
		len -= (size_t)n;
		a->have += n;
		atomic_fetch_add(&client_session(a->c)->bytes, (int64_t)n);
	}
	return 0;
}

/* Nothing is behind what we have: right if that is all of it. */
static int nothing_behind(appending *a, const reply *r, int code, error *err)
{
	download *d = a->d;
	int64_t size = size_now(a->c, d->of, r);
	if (size > a->have || size < 0)
		return code;
	if (size < a->have)
		return error_set(err, ERROR_CHANGED, "%s: it has fewer than the %" PRId64 " bytes that are here", d->of->shown, a->have);
	if (r->etag[0] != '\0')
		(void)snprintf(d->etag, sizeof d->etag, "%s", r->etag);
	return 0;
}

static int append_all(appending *a, const char *if_match, error *err)
{
	attempts tries = {0};
	int64_t best = a->have;
	for (;;) {
		request q = REQUEST("GET", a->d->of);
		reply r;
		bool retry;
		q.from = a->have;
		q.if_match = a->pinned[0] != '\0' && reply_etag_strong(a->pinned) ? a->pinned : if_match;
		q.permission = "s3:GetObject";
		q.ctx = a;
		q.on_head = append_head;
		q.on_data = append_data;
		int code = client_once(a->c, &q, &r, &retry, err);
		if (r.status == 416 && a->have > 0) {
			code = nothing_behind(a, &r, code, err);
			retry = false;
		}
		if (a->have > best) {
			best = a->have;
			tries.failures = 0;
		}
		bool again = code != 0 && client_again(a->c, &tries, code, retry, &r, err);
		reply_fini(&r);
		if (code != 0 && cancelled())
			return error_set(err, ERROR_CANCELLED, "%s: stopped on request", a->d->of->shown);
		if (!again)
			return code;
	}
}

int download_rest(client *c, download *d, int64_t from, const char *if_match, error *err)
{
	appending a = {.c = c, .d = d, .have = from};
	struct stat st;
	int code = 0;
	a.fd = open(d->path, O_WRONLY | O_APPEND | O_CLOEXEC | (from == 0 ? O_CREAT : 0), 0666);
	if (a.fd < 0)
		return error_errno(err, errno, "cannot open %s", d->path);
	if (flock(a.fd, LOCK_EX | LOCK_NB) != 0)
		code = error_set(err, ERROR_EXISTS, "%s is being fetched by another process", d->path);
	else if (fstat(a.fd, &st) != 0 || st.st_size != from)
		code =
			error_set(err, ERROR_INVALID, "%s has %lld bytes, not the %" PRId64 " that --range says", d->path, (long long)st.st_size, from);
	if (code == 0 && if_match != NULL)
		(void)snprintf(a.pinned, sizeof a.pinned, "%s", if_match);
	atomic_store(&client_session(c)->bytes, from);
	if (code == 0)
		code = append_all(&a, if_match, err);
	if (fsync(a.fd) != 0 && code == 0)
		code = sink_errno(err, errno, d->path);
	if (close(a.fd) != 0 && code == 0)
		code = sink_errno(err, errno, d->path);
	d->size = a.have;
	d->resumed_at = from;
	return code;
}
