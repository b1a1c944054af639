/* Urls and addresses: what is taken makes a url of harmless characters from which the key comes back, and no message tells a password. */
#include <stdlib.h>
#include <string.h>

#include "transfer/core/location.h"
#include "transfer/core/relative.h"
#include "transfer/core/s3_url.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void check_key(const endpoint *e, const location *l)
{
	char *url = s3_url(e, l->bucket, l->key, NULL, 0);
	const char *path = strchr(strstr(url, "://") + 3, '/');
	size_t skip = e->amazon && strncmp(strstr(url, "://") + 3, e->authority, strlen(e->authority)) != 0 ? 1 : strlen(l->bucket) + 2;
	buf back = {0};
	for (const char *p = url; *p != '\0'; p++)
		check(*p > ' ' && *p < 0x7F && strchr("\"<>\\^`{|}+#?", *p) == NULL);
	check(s3_decode(path + skip, &back) == 0 && strcmp(buf_text(&back), l->key) == 0);
	buf_fini(&back);
	free(url);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	char *text = malloc(size + 1);
	endpoint e, own;
	location l;
	error err = {0};
	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	check(endpoint_parse("https://s3.amazonaws.com", NULL, &own, NULL) == 0);
	if (location_parse(text, &l, &err) == 0) {
		check(location_name(&l) != NULL && l.shown != NULL);
		if (l.kind == LOCATION_S3)
			check_key(&own, &l);
	}
	location_fini(&l);
	if (endpoint_parse(text, NULL, &e, NULL) == 0) {
		check(strpbrk(e.authority, "/@? #") == NULL);
		check(location_parse("s3://bucket/some key", &l, NULL) == 0);
		check_key(&e, &l);
		location_fini(&l);
	}
	endpoint_fini(&e);
	endpoint_fini(&own);
	(void)relative_link_allowed("a/b", text);
	(void)archive_kind_of(text, true);
	free(text);
	return 0;
}
