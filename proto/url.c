/* See url.h. */
#include "proto/url.h"

#include <string.h>

#include "common/mem.h"

enum { FILE_NAME_MAX = 255 };

bool url_is_remote(const char *url)
{
	const char *scheme = url != NULL ? strstr(url, "://") : NULL;
	return scheme != NULL && memchr(url, '/', (size_t)(scheme - url)) == NULL;
}

const char *url_after_scheme(const char *url)
{
	return url_is_remote(url) ? strstr(url, "://") + 3 : url;
}

size_t url_length(const char *url)
{
	bool web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
	return web ? strcspn(url, "?#") : strlen(url);
}

int url_file_name(const char *url, char **name, error *err)
{
	size_t end = url_length(url);
	while (end > 0 && url[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && url[begin - 1] != '/')
		begin--;
	size_t len = end - begin;
	bool dots = (len == 1 || len == 2) && strncmp(url + begin, "..", len) == 0;
	*name = NULL;
	if (len == 0 || dots || len > FILE_NAME_MAX)
		return error_set(err, ERROR_INVALID, "%.*s: no file can have the name that this ends in", (int)end, url);
	*name = mem_strndup(url + begin, len);
	return 0;
}
