/* What a store answers: every reader of XML on the same bytes; what is taken keeps its promises. */
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "transfer/core/http_reply.h"
#include "transfer/core/location.h"
#include "transfer/core/s3_reply.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void check_page(const char *text, size_t len)
{
	s3_page p;
	if (s3_page_parse(text, len, &p, NULL) == 0) {
		check(p.n <= S3_PAGE_ITEMS && (p.next == NULL || p.next[0] != '\0'));
		for (size_t i = 0; i < p.n; i++)
			check(strlen(p.items[i].key) <= KEY_MAX && p.items[i].size >= 0);
		check(p.n_folders <= S3_PAGE_ITEMS);
		for (size_t i = 0; i < p.n_folders; i++)
			check(strlen(p.folders[i]) <= KEY_MAX);
	}
	s3_page_fini(&p);
}

static void check_header(const char *text)
{
	int64_t a, b;
	char md5[33];
	if (reply_content_range(text, &a, &b))
		check((a >= 0 && (b < 0 || a < b)) || (a < 0 && b >= 0));
	if (reply_date(text, &a))
		check(a >= 0);
	a = reply_retry_after(text, 0);
	check(a >= -1 && a <= 86400);
	if (reply_length(text, &a))
		check(a >= 0);
	if (reply_etag_md5(text, md5))
		check(reply_etag_strong(text));
	(void)reply_date_iso(text, &a);
}

/* A key that fits comes back as it was. */
static void check_xml(const char *key)
{
	buf b = {0};
	char *back;
	s3_error e;
	if (!s3_key_fits_xml(key))
		return;
	buf_puts(&b, "<DeleteResult><Error><Code>x</Code><Key>");
	s3_put_xml(&b, key);
	buf_puts(&b, "</Key></Error></DeleteResult>");
	check(s3_removed_parse(buf_text(&b), b.len, &back, &e, NULL) == 0 && back != NULL && strcmp(back, key) == 0);
	free(back);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	char *text = malloc(size + 1), *id, etag[64];
	s3_error e;
	s3_uploads u;
	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (s3_error_parse(text, size, &e))
		check(e.code[0] != '\0' && json_utf8_valid(e.message, strlen(e.message)) && strlen(e.message) < sizeof e.message);
	check_page(text, size);
	if (s3_upload_parse(text, size, &id, NULL) == 0)
		check(id[0] != '\0');
	free(id);
	(void)s3_completed_parse(text, size, etag, sizeof etag, NULL);
	check(strlen(etag) < sizeof etag);
	(void)s3_copied_parse(text, size, etag, sizeof etag, NULL);
	check(strlen(etag) < sizeof etag);
	if (s3_removed_parse(text, size, &id, &e, NULL) == 0)
		check(id != NULL || e.code[0] == '\0');
	free(id);
	check_xml(text);
	(void)s3_uploads_parse(text, size, &u, NULL);
	s3_uploads_fini(&u);
	check_header(text);
	free(text);
	return 0;
}
