/* Urls and the address of the store: see location.h for the contract.
 *
 * Nothing here follows the general grammar of urls: an s3 url has none (a key may be anything), and of an http url only what matters for safety
 * is looked at (scheme, no user name, a host); the rest is the library's that makes the request.
 */
#include "transfer/core/location.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"

enum { SHOWN_MAX = 200, REGION_MAX = 64, HOST_MAX = 260 };

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

char *location_shorten(const char *text)
{
	size_t len = strlen(text), half = SHOWN_MAX / 2;
	if (len <= SHOWN_MAX)
		return mem_strdup(text);
	size_t head = half, tail = len - half;
	/* Not within a UTF-8 character. */
	while (head > 0 && ((unsigned char)text[head] & 0xC0) == 0x80)
		head--;
	while (tail < len && ((unsigned char)text[tail] & 0xC0) == 0x80)
		tail++;
	return mem_printf("%.*s…%s", (int)head, text, text + tail);
}

/* Up to the query. */
static char *shown_of(const char *text, size_t len)
{
	char *cut = mem_strndup(text, len), *shown = location_shorten(cut);
	free(cut);
	return shown;
}

static bool bucket_valid(const char *bucket, size_t len)
{
	if (len == 0 || len > 255 || bucket[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_alnum(bucket[i]) && strchr("._-", bucket[i]) == NULL)
			return false;
	}
	return true;
}

static int parse_s3(const char *text, location *out, error *err)
{
	const char *bucket = text + strlen("s3://");
	size_t len = strcspn(bucket, "/");
	const char *key = bucket[len] == '/' ? bucket + len + 1 : bucket + len;
	out->kind = LOCATION_S3;
	out->shown = location_shorten(text);
	if (!bucket_valid(bucket, len))
		return error_set(err, ERROR_INVALID, "%s: what stands behind s3:// is no bucket's name", out->shown);
	if (strlen(key) > KEY_MAX)
		return error_set(err, ERROR_INVALID, "%s: the key has %zu bytes, the most is %d", out->shown, strlen(key), (int)KEY_MAX);
	out->bucket = mem_strndup(bucket, len);
	out->key = mem_strdup(key);
	return 0;
}

/* What may not stand in a url is encoded; what is encoded already stays. */
static char *tidied(const char *text)
{
	buf b = {0};
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		if (*p <= 0x20 || *p >= 0x7F || strchr("\"<>\\^`{|}", *p) != NULL)
			buf_printf(&b, "%%%02X", *p);
		else
			buf_putc(&b, (char)*p);
	}
	return buf_detach(&b);
}

static int parse_http(const char *text, location *out, error *err)
{
	const char *host = strstr(text, "://") + 3;
	size_t len = strcspn(host, "/?#"), scheme = (size_t)(host - text);
	out->kind = LOCATION_HTTP;
	if (memchr(host, '@', len) != NULL)
		return error_set(err, ERROR_INVALID,
			"a url with a user name or password in it is refused; it would end up in logs and lists of processes");
	out->shown = shown_of(text, scheme + strcspn(host, "?#"));
	if (len == 0 || host[0] == ':')
		return error_set(err, ERROR_INVALID, "%s: the url has no host", out->shown);
	for (const char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7F)
			return error_set(err, ERROR_INVALID, "%s: the url has a control character in it", out->shown);
	}
	out->url = tidied(text);
	return 0;
}

int location_parse(const char *text, location *out, error *err)
{
	*out = (location){0};
	if (strlen(text) > LOCATION_MAX)
		return error_set(err, ERROR_INVALID, "a url of %zu bytes; the most is %d", strlen(text), (int)LOCATION_MAX);
	out->text = mem_strdup(text);
	if (begins(text, "s3://"))
		return parse_s3(text, out, err);
	if (begins(text, "http://") || begins(text, "https://"))
		return parse_http(text, out, err);
	const char *sign = strstr(text, "://");
	return error_set(err, ERROR_INVALID, "%.*s%s: only s3://, http:// and https:// can be fetched", sign != NULL ? (int)(sign - text) : 40,
		text, sign != NULL ? "://…" : "");
}

int location_object(const char *bucket, const char *key, location *out, error *err)
{
	char *text = mem_printf("s3://%s/%s", bucket, key);
	int code = location_parse(text, out, err);
	free(text);
	return code;
}

void location_fini(location *l)
{
	free(l->text);
	free(l->bucket);
	free(l->key);
	free(l->url);
	free(l->shown);
	*l = (location){0};
}

const char *location_name(const location *l)
{
	const char *rest = strstr(l->text, "://") + 3, *slash = strrchr(rest, '/');
	if (slash != NULL)
		return slash + 1;
	/* A bucket without a key is kept under its name; a host without a path names no file. */
	return l->kind == LOCATION_S3 ? rest : "";
}

/* ---- the store's address ---- */

static bool port_valid(const char *port, size_t len)
{
	long n = 0;
	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (port[i] < '0' || port[i] > '9')
			return false;
		n = n * 10 + (port[i] - '0');
	}
	return n >= 1 && n <= 65535;
}

static bool host_valid(const char *host, size_t len)
{
	if (len == 0 || len > HOST_MAX)
		return false;
	if (host[0] == '[') {
		bool colon = false;
		for (size_t i = 1; i + 1 < len; i++) {
			if (strchr("0123456789abcdefABCDEF:.", host[i]) == NULL)
				return false;
			colon = colon || host[i] == ':';
		}
		return colon && len > 3 && host[len - 1] == ']';
	}
	for (size_t i = 0; i < len; i++) {
		if (!is_alnum(host[i]) && strchr("._-", host[i]) == NULL)
			return false;
	}
	return host[0] != '-' && host[0] != '.';
}

static bool region_valid(const char *region)
{
	size_t len = strlen(region);
	for (size_t i = 0; i < len; i++) {
		if (!is_alnum(region[i]) && region[i] != '-' && region[i] != '_')
			return false;
	}
	return len <= REGION_MAX;
}

/* s3.eu-west-1.amazonaws.com, s3-eu-west-1.amazonaws.com, s3.dualstack.eu-west-1.amazonaws.com */
static char *amazon_region(const char *host, size_t len)
{
	static const char *const heads[] = {"s3.dualstack.", "s3.", "s3-"};
	const size_t tail = strlen(".amazonaws.com");
	for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
		size_t head = strlen(heads[i]);
		if (len > head + tail && strncmp(host, heads[i], head) == 0 && memchr(host + head, '.', len - head - tail) == NULL)
			return mem_strndup(host + head, len - head - tail);
	}
	return NULL;
}

static bool ends(const char *host, size_t len, const char *with)
{
	size_t n = strlen(with);
	return len > n && memcmp(host + len - n, with, n) == 0;
}

int endpoint_parse(const char *text, const char *region, endpoint *out, error *err)
{
	*out = (endpoint){.https = true};
	const char *given = text != NULL ? text : "";
	while (*given == ' ')
		given++;
	if (*given == '\0')
		given = "s3.amazonaws.com";
	if (strncmp(given, "http://", 7) == 0)
		out->https = false;
	const char *host = strstr(given, "://");
	host = host != NULL ? host + 3 : given;
	size_t len = strcspn(host, " /"), end = len + strspn(host + len, " /");
	const char *colon = NULL;
	for (size_t i = host[0] == '[' ? strcspn(host, "]") : 0; i < len && colon == NULL; i++)
		colon = host[i] == ':' ? host + i : NULL;
	size_t name = colon != NULL ? (size_t)(colon - host) : len;
	bool known = host == given || strncmp(given, "http://", 7) == 0 || strncmp(given, "https://", 8) == 0;
	/* The text may be a url with a password in it: it is not repeated. */
	if (!known || host[end] != '\0' || !host_valid(host, name) || (colon != NULL && !port_valid(colon + 1, len - name - 1)))
		return error_set(err, ERROR_INVALID,
			"S3_ENDPOINT_URL is no address of a store: it must be HOST, HOST:PORT, http://HOST[:PORT] or https://HOST[:PORT], without a "
			"path");
	if (region != NULL && !region_valid(region))
		return error_set(err, ERROR_INVALID, "AWS_REGION is no name of a region");
	out->authority = mem_strndup(host, len);
	out->amazon = ends(host, name, ".amazonaws.com");
	out->region = region != NULL && region[0] != '\0' ? mem_strdup(region) : out->amazon ? amazon_region(host, name) : NULL;
	if (out->region == NULL)
		out->region = mem_strdup("us-east-1");
	return 0;
}

void endpoint_fini(endpoint *e)
{
	free(e->authority);
	free(e->region);
	*e = (endpoint){0};
}
