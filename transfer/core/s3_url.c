/* Urls of S3 requests: see s3_url.h for the contract. */
#include "transfer/core/s3_url.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { PARTS_MAX = 10000 };
#define MIB (INT64_C(1024) * 1024)
#define PART_MIN (16 * MIB)

static bool is_unreserved(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '~';
}

void s3_encode(buf *out, const char *text, bool slash)
{
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		if (is_unreserved(*p) || (slash && *p == '/'))
			buf_putc(out, (char)*p);
		else
			buf_printf(out, "%%%02X", *p);
	}
}

bool s3_has_dots(const char *key)
{
	for (const char *p = key; *p != '\0';) {
		size_t len = strcspn(p, "/");
		if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return true;
		p += len;
		p += *p == '/';
	}
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int s3_decode(const char *text, buf *out)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '%') {
			int high = hex_digit(p[1]), low = high < 0 ? -1 : hex_digit(p[2]);
			if (low < 0 || high + low == 0)
				return ERROR_INVALID;
			buf_putc(out, (char)(high * 16 + low));
			p += 2;
		} else {
			buf_putc(out, *p == '+' ? ' ' : *p);
		}
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const s3_query *)a)->name, ((const s3_query *)b)->name);
}

static bool in_host(const endpoint *e, const char *bucket)
{
	if (!e->amazon || strlen(bucket) > 63 || strchr(bucket, '.') != NULL || strchr(bucket, '_') != NULL)
		return false;
	for (const char *p = bucket; *p != '\0'; p++) {
		if (*p >= 'A' && *p <= 'Z')
			return false;
	}
	return true;
}

char *s3_url(const endpoint *e, const char *bucket, const char *key, const s3_query *query, size_t n)
{
	s3_query sorted[S3_QUERY_MAX];
	buf b = {0};
	bool host_style = in_host(e, bucket);
	buf_puts(&b, e->https ? "https://" : "http://");
	if (host_style)
		buf_printf(&b, "%s.%s/", bucket, e->authority);
	else
		buf_printf(&b, "%s/%s", e->authority, bucket);
	if (key != NULL) {
		if (!host_style)
			buf_putc(&b, '/');
		s3_encode(&b, key, true);
	}
	if (n > S3_QUERY_MAX)
		n = S3_QUERY_MAX;
	if (n > 0) {
		memcpy(sorted, query, n * sizeof *query);
		qsort(sorted, n, sizeof *sorted, by_name);
	}
	for (size_t i = 0; i < n; i++) {
		buf_putc(&b, i == 0 ? '?' : '&');
		s3_encode(&b, sorted[i].name, false);
		buf_putc(&b, '=');
		s3_encode(&b, sorted[i].value != NULL ? sorted[i].value : "", false);
	}
	return buf_detach(&b);
}

int64_t s3_part_size(int64_t size)
{
	int64_t least = size / PARTS_MAX + (size % PARTS_MAX != 0);
	return least <= PART_MIN ? PART_MIN : (least + MIB - 1) / MIB * MIB;
}
