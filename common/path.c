/* The rule itself: see path.h. */
#include "common/path.h"

#include <string.h>

enum { PATH_LIMIT = 4095 };

bool path_is_clean(const char *path)
{
	if (path == NULL || path[0] != '/' || strnlen(path, PATH_LIMIT + 1) > PATH_LIMIT)
		return false;
	while (*path == '/') {
		size_t n = strcspn(++path, "/");
		if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		for (size_t i = 0; i < n; i++) {
			if ((unsigned char)path[i] < 0x20 || path[i] == 0x7F)
				return false;
		}
		path += n;
	}
	return path[-1] != ' ';
}
