/* See upload.h for the contract.
 *
 * Every request carries the SHA-256 of what it sends, as a part of its signature: what arrives otherwise is refused by the store. A request whose
 * answer was lost may have worked: what a second attempt is told then ("there is one already", "no such upload") is checked against the object.
 */
#include "transfer/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "transfer/core/http_reply.h"
#include "transfer/store.h"

enum { READ_STEP = 256 * 1024, FINISH_MS = 5000, LEFT_S = 86400 };

typedef struct sending {
	client *c;
	upload *u;
	int fd;
	struct stat st;
	char *id;
	char (*etags)[256];
	int n;
} sending;

/* ---- the file ---- */

static int hash_range(sending *s, int64_t at, int64_t len, request *q, EVP_MD_CTX *md5, error *err)
{
	char *block = mem_alloc(READ_STEP);
	sha256 *sha = sha256_new();
	digest d;
	int code = 0;
	while (code == 0 && len > 0) {
		ssize_t n = pread(s->fd, block, len < READ_STEP ? (size_t)len : READ_STEP, (off_t)at);
		if (n == 0)
			code = error_set(err, ERROR_CHANGED, "%s became shorter while it was read", s->u->path);
		else if (n < 0 && errno != EINTR)
			code = error_errno(err, errno, "cannot read %s", s->u->path);
		if (n <= 0)
			continue;
		sha256_add(sha, block, (size_t)n);
		if (md5 != NULL)
			EVP_DigestUpdate(md5, block, (size_t)n);
		at += n;
		len -= n;
	}
	sha256_end(sha, &d);
	digest_hex(&d, q->sha256);
	sha256_free(sha);
	free(block);
	return code;
}

static int check_same(sending *s, error *err)
{
	struct stat now;
	if (fstat(s->fd, &now) != 0)
		return error_errno(err, errno, "cannot look at %s", s->u->path);
	if (now.st_size != s->st.st_size || now.st_mtim.tv_sec != s->st.st_mtim.tv_sec || now.st_mtim.tv_nsec != s->st.st_mtim.tv_nsec)
		return error_set(err, ERROR_CHANGED, "%s changed while it was sent; nothing of it is kept at the store", s->u->path);
	return 0;
}

/* ---- after a lost answer ---- */

/* The ETag that an object has whose parts have these MD5s. */
static bool etag_of_parts(const sending *s, char out[64])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char value[EVP_MAX_MD_SIZE];
	bool good = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_md5(), NULL) == 1;
	for (int i = 0; good && i < s->n; i++) {
		char hex[33];
		unsigned char bytes[16];
		good = reply_etag_md5(s->etags[i], hex);
		for (int k = 0; good && k < 16; k++) {
			char two[3] = {hex[2 * k], hex[2 * k + 1], '\0'};
			bytes[k] = (unsigned char)strtoul(two, NULL, 16);
		}
		good = good && EVP_DigestUpdate(ctx, bytes, sizeof bytes) == 1;
	}
	good = good && EVP_DigestFinal_ex(ctx, value, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	out[0] = '"';
	for (int i = 0; good && i < 16; i++)
		(void)snprintf(out + 1 + 2 * i, 3, "%02x", value[i]);
	if (good)
		(void)snprintf(out + 33, 31, "-%d\"", s->n);
	return good;
}

/* The object is there as we sent it, although its answer did not come. */
static bool is_ours(sending *s, const char *etag)
{
	object_head head;
	if (store_head(s->c, s->u->to, NULL, &head, NULL) != 0 || head.size != (int64_t)s->st.st_size || strcmp(head.etag, etag) != 0)
		return false;
	(void)snprintf(s->u->etag, sizeof s->u->etag, "%s", head.etag);
	log_info("put", "it had arrived, only the answer was lost", L_STR("object", s->u->to->shown));
	return true;
}

static int judge_new(const sending *s, int code, const reply *r, error *err)
{
	if (s->u->only_new && r->status == 412)
		return error_set(err, ERROR_EXISTS, "%s: there is such an object already", s->u->to->shown);
	return code;
}

/* ---- in one piece ---- */

static bool md5_matches(sending *s, char out[64])
{
	EVP_MD_CTX *md5 = EVP_MD_CTX_new();
	unsigned char value[EVP_MAX_MD_SIZE];
	request unused = {0};
	bool good = md5 != NULL && EVP_DigestInit_ex(md5, EVP_md5(), NULL) == 1 &&
		hash_range(s, 0, (int64_t)s->st.st_size, &unused, md5, NULL) == 0 && EVP_DigestFinal_ex(md5, value, NULL) == 1;
	EVP_MD_CTX_free(md5);
	out[0] = '"';
	for (int i = 0; good && i < 16; i++)
		(void)snprintf(out + 1 + 2 * i, 3, "%02x", value[i]);
	(void)snprintf(out + 33, 31, "\"");
	return good;
}

static int send_whole(sending *s, error *err)
{
	request q = REQUEST("PUT", s->u->to);
	reply r;
	attempts tries = {0};
	char etag[64];
	q.has_body = q.counts = true;
	q.fd = s->fd;
	q.len = (int64_t)s->st.st_size;
	q.if_none_match = s->u->only_new ? "*" : NULL;
	q.once = s->u->only_new;
	q.permission = "s3:PutObject";
	int code = hash_range(s, 0, q.len, &q, NULL, err);
	if (code != 0)
		return code;
	code = client_call(s->c, &q, &r, &tries, err);
	if (code == 0)
		(void)snprintf(s->u->etag, sizeof s->u->etag, "%s", r.etag);
	else if (r.status == 412 && tries.failures > 0 && md5_matches(s, etag) && is_ours(s, etag))
		code = 0;
	else
		code = judge_new(s, code, &r, err);
	if (code == 0 && r.status != 412 && r.etag[0] == '\0')
		code = error_set(err, ERROR_CORRUPT, "%s: the answer has no ETag, so it does not come from a store for S3", s->u->to->shown);
	reply_fini(&r);
	return code;
}

/* ---- in parts ---- */

static int begin(sending *s, error *err)
{
	s3_query query[] = {{"uploads", NULL}};
	request q = REQUEST("POST", s->u->to);
	reply r;
	q.query = query;
	q.n_query = 1;
	q.has_body = true;
	q.permission = "s3:PutObject";
	int code = client_call(s->c, &q, &r, NULL, err);
	if (code == 0 && s3_upload_parse(buf_text(&r.body), r.body.len, &s->id, err) != 0)
		code = error_prefix(err, "%s", s->u->to->shown);
	reply_fini(&r);
	return code;
}

static int send_part(sending *s, int64_t at, int64_t len, error *err)
{
	char number[16];
	s3_query query[] = {{"partNumber", number}, {"uploadId", s->id}};
	request q = REQUEST("PUT", s->u->to);
	reply r = {0};
	(void)snprintf(number, sizeof number, "%d", s->n + 1);
	q.query = query;
	q.n_query = 2;
	q.has_body = q.counts = true;
	q.fd = s->fd;
	q.offset = at;
	q.len = len;
	q.permission = "s3:PutObject";
	int code = hash_range(s, at, len, &q, NULL, err);
	if (code != 0)
		return code;
	code = client_call(s->c, &q, &r, NULL, err);
	if (code == 0 && r.etag[0] == '\0')
		code = error_set(err, ERROR_CORRUPT, "%s: the answer to a part has no ETag", s->u->to->shown);
	if (code == 0) {
		s->etags = mem_resize_array(s->etags, (size_t)s->n + 1, sizeof *s->etags);
		(void)snprintf(s->etags[s->n++], sizeof *s->etags, "%s", r.etag);
	}
	reply_fini(&r);
	return code;
}

static int finish(sending *s, error *err)
{
	s3_query query[] = {{"uploadId", s->id}};
	request q = REQUEST("POST", s->u->to);
	reply r;
	attempts tries = {0};
	digest d;
	buf body = {0};
	char etag[64];
	buf_puts(&body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (int i = 0; i < s->n; i++) {
		buf_printf(&body, "<Part><PartNumber>%d</PartNumber><ETag>", i + 1);
		s3_put_xml(&body, s->etags[i]);
		buf_puts(&body, "</ETag></Part>");
	}
	buf_puts(&body, "</CompleteMultipartUpload>");
	q.query = query;
	q.n_query = 1;
	q.has_body = true;
	q.memory = buf_text(&body);
	q.len = (int64_t)body.len;
	q.if_none_match = s->u->only_new ? "*" : NULL;
	q.once = true;
	q.work = (int64_t)s->st.st_size;
	q.permission = "s3:PutObject";
	digest_of(body.data, body.len, &d);
	digest_hex(&d, q.sha256);
	int code = client_call(s->c, &q, &r, &tries, err);
	if (code == 0 && s3_completed_parse(buf_text(&r.body), r.body.len, s->u->etag, sizeof s->u->etag, err) != 0)
		code = error_prefix(err, "%s", s->u->to->shown);
	else if ((code == ERROR_CONFLICT || r.status == 412) && tries.failures > 0 && etag_of_parts(s, etag) && is_ours(s, etag))
		code = 0;
	else
		code = judge_new(s, code, &r, err);
	reply_fini(&r);
	buf_fini(&body);
	return code;
}

static int abort_upload(client *c, const location *of, const char *id, error *err)
{
	s3_query query[] = {{"uploadId", id}};
	request q = REQUEST("DELETE", of);
	reply r;
	q.query = query;
	q.n_query = 1;
	q.permission = "s3:AbortMultipartUpload";
	int code = client_call(c, &q, &r, NULL, err);
	reply_fini(&r);
	return code == ERROR_CONFLICT || code == ERROR_NOT_FOUND ? 0 : code;
}

/* What killed uploads of this object left at the store. A store that cannot tell, or a key that may not ask, is no failure. */
static void clear_left(sending *s)
{
	s3_query query[] = {{"uploads", NULL}, {"prefix", s->u->to->key}};
	request q = REQUEST("GET", s->u->to);
	reply r;
	s3_uploads left = {0};
	int64_t begun;
	bool retry;
	q.bucket = true;
	q.query = query;
	q.n_query = 2;
	q.body_max = S3_PAGE_MAX;
	if (client_once(s->c, &q, &r, &retry, NULL) == 0)
		(void)s3_uploads_parse(buf_text(&r.body), r.body.len, &left, NULL);
	reply_fini(&r);
	for (size_t i = 0; i < left.n; i++) {
		const s3_upload *one = &left.items[i];
		if (strcmp(one->key, s->u->to->key) != 0 || !reply_date_iso(one->begun, &begun) ||
			session_time(client_session(s->c)) - begun < LEFT_S)
			continue;
		if (abort_upload(s->c, s->u->to, one->id, NULL) == 0)
			log_info("put", "removed what a killed upload had left at the store", L_STR("object", s->u->to->shown),
				L_STR("begun", one->begun));
	}
	s3_uploads_fini(&left);
}

/* A client of its own: that of the upload may be cancelled, or at the end of its attempts. */
static void clear_ours(sending *s)
{
	error why = {0};
	client *c = client_new(client_session(s->c));
	client_finish(c, FINISH_MS);
	if (abort_upload(c, s->u->to, s->id, &why) != 0)
		log_warn("put", "what was sent so far stays at the store until it is cleared there", L_STR("object", s->u->to->shown),
			L_STR("upload", s->id), L_STR("error", why.text));
	client_free(c);
}

static int send_parts(sending *s, int64_t part, error *err)
{
	int64_t size = (int64_t)s->st.st_size;
	int code = begin(s, err);
	if (code == 0)
		clear_left(s);
	for (int64_t at = 0; code == 0 && at < size; at += part)
		code = send_part(s, at, size - at < part ? size - at : part, err);
	if (code == 0)
		code = check_same(s, err);
	if (code == 0)
		code = finish(s, err);
	if (code != 0 && s->id != NULL)
		clear_ours(s);
	s->u->parts = s->n;
	return code;
}

int upload_file(client *c, upload *u, error *err)
{
	sending s = {.c = c, .u = u};
	int code = 0;
	s.fd = open(u->path, O_RDONLY | O_CLOEXEC);
	if (s.fd < 0)
		return error_errno(err, errno, "cannot open %s", u->path);
	if (fstat(s.fd, &s.st) != 0)
		code = error_errno(err, errno, "cannot look at %s", u->path);
	else if (!S_ISREG(s.st.st_mode))
		code = error_set(err, ERROR_INVALID, "%s is no file", u->path);
	int64_t size = (int64_t)s.st.st_size, part = s3_part_size(size);
	u->size = size;
	if (atomic_load(&client_session(c)->size) < 0)
		atomic_store(&client_session(c)->size, size);
	if (code == 0 && size <= part) {
		code = send_whole(&s, err);
		if (code == 0)
			code = check_same(&s, err);
	} else if (code == 0) {
		code = send_parts(&s, part, err);
	}
	if (code == 0)
		atomic_fetch_add(&client_session(c)->files, 1);
	free(s.etags);
	free(s.id);
	close(s.fd);
	return code;
}
