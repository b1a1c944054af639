/* See program.h. */
#include "common/program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

char *program_beside(const char *name)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	if (len <= 0)
		return mem_strdup(name);
	self[len] = '\0';
	char *slash = strrchr(self, '/');
	char *path = slash == NULL ? mem_strdup(name) : mem_printf("%.*s/%s", (int)(slash - self), self, name);
	if (access(path, X_OK) == 0)
		return path;
	free(path);
	return mem_strdup(name);
}
