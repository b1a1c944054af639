/* Paths that stay below a folder: see relative.h for the contract. */
#include "transfer/core/relative.h"

#include <stddef.h>
#include <string.h>

enum { PART_MAX = 255, DEPTH_MAX = 64, PATH_BYTES = 2048 };

const char *relative_wrong(const char *path)
{
	size_t parts = 0;
	if (path[0] == '\0')
		return "is empty";
	if (path[0] == '/')
		return "is an absolute path";
	if (strstr(path, "://") != NULL)
		return "is a url of its own";
	if (strlen(path) > PATH_BYTES)
		return "is too long";
	for (const char *p = path; *p != '\0';) {
		size_t len = strcspn(p, "/");
		if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return "has \".\" or \"..\" in it";
		if (len > PART_MAX)
			return "has a name of more than 255 bytes in it";
		if (len > 0 && ++parts > DEPTH_MAX)
			return "is more than 64 folders deep";
		for (size_t i = 0; i < len; i++) {
			if ((unsigned char)p[i] < ' ' || p[i] == 0x7F)
				return "has a control character in it";
		}
		p += len;
		p += *p == '/';
	}
	return NULL;
}

/* Folders between the root and what is at the path. */
static size_t depth_of(const char *path)
{
	size_t depth = 0;
	for (const char *p = path; *p != '\0'; p++)
		depth += *p == '/' && p[1] != '/' && p[1] != '\0';
	return depth;
}

bool relative_link_allowed(const char *path, const char *target)
{
	size_t up = 0;
	const char *rest = target;
	while (strncmp(rest, "../", 3) == 0 || strcmp(rest, "..") == 0) {
		up++;
		rest += rest[2] == '/' ? 3 : 2;
		rest += strspn(rest, "/");
	}
	if (up > depth_of(path) || target[0] == '\0')
		return false;
	return rest[0] == '\0' || relative_wrong(rest) == NULL;
}

enum archive_kind archive_kind_of(const char *url, bool http)
{
	static const struct {
		const char *end;
		enum archive_kind kind;
	} ends[] = {{".tar", ARCHIVE_TAR}, {".tar.gz", ARCHIVE_TAR_GZ}, {".zip", ARCHIVE_ZIP}};
	size_t len = http ? strcspn(url, "?#") : strlen(url);
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		size_t n = strlen(ends[i].end);
		if (len > n && memcmp(url + len - n, ends[i].end, n) == 0 && url[len - n - 1] != '/')
			return ends[i].kind;
	}
	return ARCHIVE_NONE;
}
