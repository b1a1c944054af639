/* See rooted.h. */
#include "edge-agent/storage/rooted.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "proto/url.h"

enum { LINKS_MAX = 40 };

static int check(const char *url, error *err)
{
	if (url_is_remote(url))
		return error_set(err, ERROR_UNSUPPORTED, "%s is neither a path from the root nor an s3:// url, and one of them is needed here",
			url);
	if (url[0] != '/')
		return error_set(err, ERROR_INVALID, "%s is relative to nothing that is known: an absolute path is needed", url);
	return 0;
}

static void up(char *done)
{
	char *slash = strrchr(done, '/');
	if (slash != NULL)
		*slash = '\0';
}

/* The first part of *rest is done: a name is appended to *done, a link is put before what is left of *rest. */
static void step(int root_len, const char *root, char **done, char **rest, int *links)
{
	char to[PATH_MAX];
	size_t skip = strspn(*rest, "/"), n = strcspn(*rest + skip, "/");
	const char *name = *rest + skip, *after = name + n;
	if (n == 0 || (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.')) {
		if (n == 2)
			up(*done);
		memmove(*rest, after, strlen(after) + 1);
		return;
	}
	char *next = mem_printf("%s/%.*s", *done, (int)n, name), *path = mem_printf("%.*s%s", root_len, root, next);
	ssize_t len = readlink(path, to, sizeof to - 1);
	free(path);
	if (len < 0) {
		free(*done);
		*done = next;
		memmove(*rest, after, strlen(after) + 1);
		return;
	}
	free(next);
	to[len] = '\0';
	++*links;
	if (to[0] == '/')
		(*done)[0] = '\0';
	char *longer = mem_printf("%s%s", to, after);
	free(*rest);
	*rest = longer;
}

int rooted_path(const char *root, const char *url, char **out, error *err)
{
	int root_len = root != NULL ? (int)strlen(root) : 0, links = 0;
	*out = NULL;
	int code = check(url, err);
	while (root_len > 0 && root[root_len - 1] == '/')
		root_len--;
	if (code != 0)
		return code;
	if (root_len == 0) {
		*out = mem_strdup(url);
		return 0;
	}
	char *done = mem_strdup(""), *rest = mem_strdup(url);
	bool slash = url[strlen(url) - 1] == '/';
	while (*rest != '\0' && links <= LINKS_MAX)
		step(root_len, root, &done, &rest, &links);
	if (links > LINKS_MAX)
		code = error_set(err, ERROR_INVALID, "%s: too many links", url);
	else
		*out = mem_printf("%.*s%s%s", root_len, root, done, slash ? "/" : "");
	free(rest);
	free(done);
	return code;
}
