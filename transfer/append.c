/* What was appended to a source, appended to a file: see download_rest in download.h for the contract.
 *
 * With `same` an attempt asks for some bytes that are here already, too, and compares them before it writes one behind them. That makes sure that
 * a version is a continuation of what is here; the further attempts of the same version (If-Match) need not do it again. A version that is
 * replaced while it comes is compared anew, so that a source that keeps growing is no failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
#include "transfer/download.h"
#include "transfer/download_internal.h"
#include "transfer/sink.h"

enum { CHANGES_MAX = 5, COMPARE_STEP = 16 * 1024 };

typedef struct appending {
	client *c;
	download *d;
	int fd;
	int64_t have; /* bytes of the file */
	int64_t at;   /* the next byte that comes; below `have` it is compared */
	char pinned[256];
	bool compared; /* of this version */
	int changes;
} appending;

static int too_short(const appending *a, error *err)
{
	return error_set(err, ERROR_CHANGED, "%s: it has fewer than the %" PRId64 " bytes that are here", a->d->of->shown, a->have);
}

static int append_head(void *ctx, const reply *r, error *err)
{
	appending *a = ctx;
	download *d = a->d;
	int code = download__check_head(d->of, r, err);
	if (code != 0)
		return code;
	if (a->at > 0 && r->status != 206)
		return error_set(err, ERROR_UNSUPPORTED, "%s: the server sends no parts, only all of it", d->of->shown);
	if (r->status == 206 && r->from != a->at)
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

/* Up to `len` bytes that are here already; *used of them were. */
static int compare(appending *a, const char *data, size_t len, size_t *used, error *err)
{
	char here[COMPARE_STEP];
	*used = 0;
	while (a->at < a->have && *used < len) {
		size_t want = len - *used < sizeof here ? len - *used : sizeof here;
		if ((int64_t)want > a->have - a->at)
			want = (size_t)(a->have - a->at);
		ssize_t n = pread(a->fd, here, want, (off_t)a->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "cannot read %s", a->d->path);
		if (n == 0 || memcmp(here, data + *used, (size_t)n) != 0)
			return error_set(err, ERROR_CHANGED, "%s: what is before byte %" PRId64 " is not what %s ends with", a->d->of->shown, a->have,
				a->d->path);
		*used += (size_t)n;
		a->at += n;
	}
	a->compared = a->compared || a->at == a->have;
	return 0;
}

static int append_data(void *ctx, const char *data, size_t len, error *err)
{
	appending *a = ctx;
	size_t used;
	int code = compare(a, data, len, &used, err);
	while (code == 0 && used < len) {
		ssize_t n = write(a->fd, data + used, len - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sink_errno(err, errno, a->d->path);
		used += (size_t)n;
		a->have += n;
		a->at += n;
		atomic_fetch_add(&client_session(a->c)->bytes, (int64_t)n);
	}
	return code;
}

/* Nothing is behind what was asked for: right if that is all of it. */
static int nothing_behind(appending *a, const reply *r, int code, error *err)
{
	download *d = a->d;
	int64_t size = download__size_now(a->c, d->of, r);
	if (size >= 0 && size < a->have)
		return too_short(a, err);
	if (size != a->have || a->at < a->have)
		return code;
	if (r->etag[0] != '\0')
		(void)snprintf(d->etag, sizeof d->etag, "%s", r->etag);
	return 0;
}

static int attempt(appending *a, reply *r, bool *retry, error *err)
{
	request q = REQUEST("GET", a->d->of);
	bool pinned = reply_etag_strong(a->pinned);
	int64_t back = a->d->same < a->have ? a->d->same : a->have;
	if (pinned && a->compared)
		back = 0;
	a->at = a->have - back;
	q.from = a->at;
	q.if_match = pinned ? a->pinned : a->d->if_match;
	q.permission = "s3:GetObject";
	q.ctx = a;
	q.on_head = append_head;
	q.on_data = append_data;
	int code = client_once(a->c, &q, r, retry, err);
	if (code == 0 && a->at < a->have)
		code = too_short(a, err);
	if (r->status == 416 && q.from > 0) {
		code = nothing_behind(a, r, code, err);
		*retry = false;
	}
	/* Another version than the one that was begun may well go on with what is here. */
	if (code == ERROR_CHANGED && a->d->same > 0 && a->d->if_match == NULL && pinned && ++a->changes < CHANGES_MAX) {
		a->pinned[0] = '\0';
		a->compared = false;
		*retry = true;
	}
	return code;
}

static int append_all(appending *a, error *err)
{
	attempts tries = {0};
	int64_t best = a->have;
	for (;;) {
		reply r;
		bool retry;
		int code = attempt(a, &r, &retry, err);
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

int download_rest(client *c, download *d, int64_t from, error *err)
{
	appending a = {.c = c, .d = d, .have = from};
	struct stat st;
	int code = 0;
	a.fd = open(d->path, (d->same > 0 ? O_RDWR : O_WRONLY) | O_APPEND | O_CLOEXEC | (from == 0 ? O_CREAT : 0), 0666);
	if (a.fd < 0)
		return error_errno(err, errno, "cannot open %s", d->path);
	if (flock(a.fd, LOCK_EX | LOCK_NB) != 0)
		code = error_set(err, ERROR_EXISTS, "%s is being fetched by another process", d->path);
	else if (fstat(a.fd, &st) != 0 || st.st_size != from)
		code =
			error_set(err, ERROR_INVALID, "%s has %lld bytes, not the %" PRId64 " that --range says", d->path, (long long)st.st_size, from);
	if (code == 0 && d->if_match != NULL)
		(void)snprintf(a.pinned, sizeof a.pinned, "%s", d->if_match);
	atomic_store(&client_session(c)->bytes, from);
	if (code == 0)
		code = append_all(&a, err);
	/* Of a version that turned out to be no continuation nothing stays. */
	if (code == ERROR_CHANGED && d->same > 0 && a.have > from && ftruncate(a.fd, (off_t)from) != 0)
		code = sink_errno(err, errno, d->path);
	if (fsync(a.fd) != 0 && code == 0)
		code = sink_errno(err, errno, d->path);
	if (close(a.fd) != 0 && code == 0)
		code = sink_errno(err, errno, d->path);
	d->size = a.have;
	d->resumed_at = from;
	return code;
}
