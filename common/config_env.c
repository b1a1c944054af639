/* Variables that look like settings of this program and are none: a mistyped name would be passed over in silence otherwise.
 *
 * They are no error: both agents, the tests and the build share the prefix, and Kubernetes makes variables from the names of services.
 * What is known to be somebody else's is not mentioned; for the rest the closest name of a setting is looked for.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/config_internal.h"

extern char **environ;

#define PREFIX "ILMARE_"
/* Of the tests, the simulator, the fuzz targets and scripts/. */
#define OTHERS "CONFIG,BUILD,SANITIZE,REQUIRE_KUBE,KUBE_APISERVER,TEST_*,SIM_*,FUZZ_*,BENCH_*"

enum { FAR = 4 }; /* changes of a letter after which a name is another name */

static bool is_listed(const char *name, const char *list)
{
	while (list != NULL && *list != '\0') {
		size_t n = strcspn(list, ",");
		bool open = n > 0 && list[n - 1] == '*';
		if (open ? strncmp(name, list, n - 1) == 0 : strlen(name) == n && memcmp(name, list, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

/* NAME_SERVICE_HOST, NAME_SERVICE_PORT[_x], NAME_PORT=tcp://…, NAME_PORT_80_TCP[_x]. */
static bool is_of_a_service(const char *name, const char *value)
{
	size_t len = strlen(name);
	if (strstr(name, "_SERVICE_HOST") != NULL || strstr(name, "_SERVICE_PORT") != NULL)
		return true;
	for (const char *p = strstr(name, "PORT_"); p != NULL; p = strstr(p + 1, "PORT_")) {
		if (isdigit((unsigned char)p[5]))
			return true;
	}
	return len > 5 && strcmp(name + len - 5, "_PORT") == 0 && strstr(value, "://") != NULL;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters have to be put in, taken out or replaced; both are shorter than CONFIG_NAME_MAX. */
static size_t distance(const char *a, const char *b)
{
	size_t row[CONFIG_NAME_MAX], n = strlen(b);
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t above = row[j];
			row[j] = least(least(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[n];
}

/* The right last part in the wrong section, or in none, is close, too. */
static bool ends_alike(const char *name, const char *setting)
{
	const char *rest = name + strlen(PREFIX);
	size_t n = strlen(rest), len = strlen(setting);
	return n >= 4 && len > n + strlen(PREFIX) && setting[len - n - 1] == '_' && strcmp(setting + len - n, rest) == 0;
}

static bool is_setting(const config_spec *spec, const char *name, char meant[CONFIG_NAME_MAX])
{
	size_t nearest = FAR;
	meant[0] = '\0';
	for (size_t i = 0; i < spec->n; i++) {
		char setting[CONFIG_NAME_MAX];
		config__env_name(spec->rows[i].key, setting);
		size_t far = ends_alike(name, setting) ? 1 : distance(name, setting);
		if (far == 0)
			return true;
		if (far < nearest) {
			nearest = far;
			memcpy(meant, setting, sizeof setting);
		}
	}
	return false;
}

void config__unknown_variables(const config_spec *spec, void (*say)(const char *name, const char *meant))
{
	for (char **e = environ; *e != NULL; e++) {
		size_t len = strcspn(*e, "=");
		char name[CONFIG_NAME_MAX], meant[CONFIG_NAME_MAX];
		if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0 || len >= sizeof name)
			continue;
		memcpy(name, *e, len);
		name[len] = '\0';
		const char *rest = name + strlen(PREFIX);
		if (is_listed(rest, OTHERS) || is_listed(rest, spec->foreign) || is_of_a_service(name, *e + len) || is_setting(spec, name, meant))
			continue;
		say(name, meant[0] != '\0' ? meant : NULL);
	}
}
