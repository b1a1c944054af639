/* XML answers of stores: see s3_reply.h for the contract. */
#include "transfer/core/s3_reply.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "transfer/core/location.h"
#include "transfer/core/s3_url.h"
#include "transfer/core/xml.h"

/* A text for people and logs. */
static void take(char *out, size_t room, const buf *text)
{
	size_t n = 0;
	for (const char *p = buf_text(text); *p != '\0' && n + 1 < room; p++)
		out[n++] = (unsigned char)*p < ' ' || *p == 0x7F ? ' ' : *p;
	while (n > 0 && !json_utf8_valid(out, n))
		n--;
	out[n] = '\0';
}

bool s3_error_parse(const char *data, size_t len, s3_error *out)
{
	xml x;
	bool is_error = false;
	*out = (s3_error){0};
	if (len > S3_ERROR_MAX)
		return false;
	xml_init(&x, data, len);
	for (enum xml_event e; (e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE;) {
		if (e == XML_OPEN && x.depth == 1) {
			is_error = xml_is(&x, 1, "Error");
			if (!is_error)
				break;
		}
		if (e == XML_CLOSE && xml_is(&x, 2, "Code"))
			take(out->code, sizeof out->code, &x.text);
		if (e == XML_CLOSE && xml_is(&x, 2, "Message"))
			take(out->message, sizeof out->message, &x.text);
		if (e == XML_CLOSE && xml_is(&x, 2, "Region"))
			take(out->region, sizeof out->region, &x.text);
	}
	xml_fini(&x);
	return is_error && out->code[0] != '\0';
}

static int not_a(const char *what, error *err)
{
	return error_set(err, ERROR_CORRUPT, "the answer is no %s; is there a store for S3 at this address", what);
}

/* Digits, up to 2^62. */
static bool number(const char *text, int64_t *out)
{
	int64_t n = 0;
	if (*text == '\0')
		return false;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || n > (INT64_C(1) << 58))
			return false;
		n = n * 10 + (*p - '0');
	}
	*out = n;
	return true;
}

/* ---- a page of objects ---- */

typedef struct page_reader {
	s3_page *page;
	s3_object now;
	bool truncated, encoded, has_size;
} page_reader;

static bool page_element(page_reader *r, xml *x)
{
	bool content = x->depth == 3 && xml_in(x, "Contents");
	if (content && xml_is(x, 3, "Key")) {
		free(r->now.key);
		r->now.key = mem_strdup(buf_text(&x->text));
	} else if (content && xml_is(x, 3, "ETag")) {
		mem_replace(&r->now.etag, buf_text(&x->text));
	} else if (content && xml_is(x, 3, "Size")) {
		r->has_size = number(buf_text(&x->text), &r->now.size);
		return r->has_size;
	} else if (xml_is(x, 2, "IsTruncated")) {
		r->truncated = strcmp(buf_text(&x->text), "true") == 0;
	} else if (xml_is(x, 2, "NextContinuationToken")) {
		mem_replace(&r->page->next, buf_text(&x->text));
	} else if (xml_is(x, 2, "EncodingType")) {
		r->encoded = strcmp(buf_text(&x->text), "url") == 0;
	} else if (xml_is(x, 2, "Contents")) {
		if (r->now.key == NULL || r->now.key[0] == '\0' || !r->has_size || r->page->n == S3_PAGE_ITEMS)
			return false;
		r->page->items = mem_resize_array(r->page->items, r->page->n + 1, sizeof r->now);
		r->page->items[r->page->n++] = r->now;
		r->now = (s3_object){0};
		r->has_size = false;
	} else if (x->depth == 3 && xml_in(x, "CommonPrefixes") && xml_is(x, 3, "Prefix")) {
		if (x->text.len == 0 || r->page->n_folders == S3_PAGE_ITEMS)
			return false;
		r->page->folders = mem_resize_array(r->page->folders, r->page->n_folders + 1, sizeof *r->page->folders);
		r->page->folders[r->page->n_folders++] = mem_strdup(buf_text(&x->text));
	}
	return true;
}

static bool decode_key(char **key)
{
	buf out = {0};
	int code = s3_decode(*key, &out);
	free(*key);
	*key = buf_detach(&out);
	return code == 0;
}

static bool decode_keys(s3_page *page)
{
	bool good = true;
	for (size_t i = 0; good && i < page->n; i++)
		good = decode_key(&page->items[i].key);
	for (size_t i = 0; good && i < page->n_folders; i++)
		good = decode_key(&page->folders[i]);
	return good;
}

int s3_page_parse(const char *data, size_t len, s3_page *out, error *err)
{
	xml x;
	page_reader r = {.page = out};
	bool good = len <= S3_PAGE_MAX;
	enum xml_event e = XML_BAD;
	*out = (s3_page){0};
	xml_init(&x, data, len);
	while (good && ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE)) {
		if (e == XML_OPEN && x.depth == 1)
			good = xml_is(&x, 1, "ListBucketResult");
		else if (e == XML_CLOSE)
			good = page_element(&r, &x);
	}
	xml_fini(&x);
	free(r.now.key);
	free(r.now.etag);
	/* The last page may have an empty token. */
	if (!r.truncated)
		mem_replace(&out->next, NULL);
	good = good && e == XML_END && (!r.truncated || (out->next != NULL && out->next[0] != '\0'));
	if (good && r.encoded)
		good = decode_keys(out);
	for (size_t i = 0; good && i < out->n; i++)
		good = strlen(out->items[i].key) <= KEY_MAX;
	for (size_t i = 0; good && i < out->n_folders; i++)
		good = strlen(out->folders[i]) <= KEY_MAX;
	return good ? 0 : not_a("list of objects", err);
}

void s3_page_fini(s3_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->items[i].key);
		free(p->items[i].etag);
	}
	for (size_t i = 0; i < p->n_folders; i++)
		free(p->folders[i]);
	free(p->items);
	free(p->folders);
	free(p->next);
	*p = (s3_page){0};
}

/* ---- uploads ---- */

int s3_upload_parse(const char *data, size_t len, char **id, error *err)
{
	xml x;
	enum xml_event e = XML_BAD;
	bool good = len <= S3_ERROR_MAX;
	*id = NULL;
	xml_init(&x, data, len);
	while (good && ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE)) {
		if (e == XML_OPEN && x.depth == 1)
			good = xml_is(&x, 1, "InitiateMultipartUploadResult");
		if (e == XML_CLOSE && xml_is(&x, 2, "UploadId"))
			mem_replace(id, buf_text(&x.text));
	}
	xml_fini(&x);
	if (good && e == XML_END && *id != NULL && (*id)[0] != '\0')
		return 0;
	mem_replace(id, NULL);
	return not_a("beginning of an upload", err);
}

/* A document `root` with an ETag in it. */
static bool etag_of(const char *root, const char *data, size_t len, char *etag, size_t room)
{
	xml x;
	enum xml_event e = XML_BAD;
	bool good = len <= S3_ERROR_MAX;
	etag[0] = '\0';
	xml_init(&x, data, len);
	while (good && ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE)) {
		if (e == XML_OPEN && x.depth == 1)
			good = xml_is(&x, 1, root);
		if (e == XML_CLOSE && xml_is(&x, 2, "ETag"))
			take(etag, room, &x.text);
	}
	xml_fini(&x);
	return good && e == XML_END;
}

int s3_completed_parse(const char *data, size_t len, char *etag, size_t room, error *err)
{
	return etag_of("CompleteMultipartUploadResult", data, len, etag, room) ? 0 : not_a("end of an upload", err);
}

int s3_copied_parse(const char *data, size_t len, char *etag, size_t room, error *err)
{
	return etag_of("CopyObjectResult", data, len, etag, room) ? 0 : not_a("end of a copy", err);
}

/* ---- what is removed ---- */

int s3_removed_parse(const char *data, size_t len, char **key, s3_error *why, error *err)
{
	xml x;
	enum xml_event e = XML_BAD;
	bool good = len <= S3_PAGE_MAX;
	s3_error now = {0};
	char *of = NULL;
	*key = NULL;
	*why = (s3_error){0};
	xml_init(&x, data, len);
	while (good && ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE)) {
		if (e == XML_OPEN && x.depth == 1)
			good = xml_is(&x, 1, "DeleteResult");
		if (e != XML_CLOSE)
			continue;
		bool inside = x.depth == 3 && xml_in(&x, "Error");
		if (inside && xml_is(&x, 3, "Key"))
			mem_replace(&of, buf_text(&x.text));
		if (inside && xml_is(&x, 3, "Code"))
			take(now.code, sizeof now.code, &x.text);
		if (inside && xml_is(&x, 3, "Message"))
			take(now.message, sizeof now.message, &x.text);
		if (!xml_is(&x, 2, "Error"))
			continue;
		if (*key == NULL && strcmp(now.code, "NoSuchKey") != 0) {
			*key = mem_strdup(of != NULL ? of : "");
			*why = now;
		}
		mem_replace(&of, NULL);
		now = (s3_error){0};
	}
	xml_fini(&x);
	free(of);
	if (good && e == XML_END)
		return 0;
	mem_replace(key, NULL);
	return not_a("answer to a removal", err);
}

bool s3_key_fits_xml(const char *key)
{
	size_t len = strlen(key);
	for (const char *p = key; *p != '\0'; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7F)
			return false;
	}
	/* U+FFFE and U+FFFF are no characters. */
	return len > 0 && key[0] != ' ' && key[len - 1] != ' ' && strstr(key, "\xEF\xBF\xBE") == NULL && strstr(key, "\xEF\xBF\xBF") == NULL &&
		json_utf8_valid(key, len);
}

void s3_put_xml(buf *out, const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (strchr("<>&\"'", *p) != NULL)
			buf_printf(out, "&#%d;", *p);
		else
			buf_putc(out, *p);
	}
}

/* ---- lists of uploads ---- */

int s3_uploads_parse(const char *data, size_t len, s3_uploads *out, error *err)
{
	xml x;
	enum xml_event e = XML_BAD;
	bool good = len <= S3_PAGE_MAX;
	s3_upload now = {0};
	*out = (s3_uploads){0};
	xml_init(&x, data, len);
	while (good && ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE)) {
		if (e == XML_OPEN && x.depth == 1)
			good = xml_is(&x, 1, "ListMultipartUploadsResult");
		if (e != XML_CLOSE)
			continue;
		bool inside = x.depth == 3 && xml_in(&x, "Upload");
		if (inside && xml_is(&x, 3, "Key"))
			mem_replace(&now.key, buf_text(&x.text));
		if (inside && xml_is(&x, 3, "UploadId"))
			mem_replace(&now.id, buf_text(&x.text));
		if (inside && xml_is(&x, 3, "Initiated"))
			take(now.begun, sizeof now.begun, &x.text);
		if (!xml_is(&x, 2, "Upload"))
			continue;
		good = now.key != NULL && now.id != NULL && out->n < S3_PAGE_ITEMS;
		if (!good)
			continue;
		out->items = mem_resize_array(out->items, out->n + 1, sizeof now);
		out->items[out->n++] = now;
		now = (s3_upload){0};
	}
	xml_fini(&x);
	free(now.key);
	free(now.id);
	return good && e == XML_END ? 0 : not_a("list of uploads", err);
}

void s3_uploads_fini(s3_uploads *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->items[i].key);
		free(u->items[i].id);
	}
	free(u->items);
	*u = (s3_uploads){0};
}
