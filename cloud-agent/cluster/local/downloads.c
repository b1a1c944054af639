/* Where remote urls land: see downloads.h for the contract.
 *
 * A path is known by the url that it comes from, as a whole: a local path that happens to begin with /downloads stays what it is.
 */
#include "cloud-agent/cluster/local/downloads.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/template.h"
#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"
#include "proto/url.h"

static const char root[] = "/downloads/";

static void place_add(cJSON *places, const char *source, const char *folder)
{
	if (!url_is_remote(source))
		return;
	const char *rest = url_after_scheme(source);
	char *inside = mem_printf("%s%s", root, rest), *real = mem_printf("%s/%s", folder, rest);
	cJSON_DeleteItemFromObjectCaseSensitive(places, inside);
	json_put_string(places, inside, real);
	free(real);
	free(inside);
}

cJSON *downloads_places(const cJSON *pod_spec, const char *folder)
{
	cJSON *places = cJSON_CreateObject();
	const cJSON *fetcher;
	cJSON_ArrayForEach(fetcher, json_member(pod_spec, "initContainers")) {
		const cJSON *args = template_fetcher(fetcher) ? json_member(fetcher, "args") : NULL;
		for (const cJSON *arg = args != NULL ? args->child : NULL; arg != NULL; arg = arg->next != NULL ? arg->next->next : NULL) {
			if (cJSON_IsString(arg))
				place_add(places, arg->valuestring, folder);
		}
	}
	return places;
}

char *downloads_destination(const char *destination, const char *folder)
{
	size_t n = sizeof root - 1;
	if (strncmp(destination, root, n) != 0)
		return NULL;
	char *whole = mem_printf("%s/%s", folder, destination + n), *slashed = mem_printf("%s/", destination);
	if (strstr(slashed, "/../") != NULL) {
		free(whole);
		whole = NULL;
	}
	free(slashed);
	return whole;
}

char *downloads_value(const char *value, const cJSON *places)
{
	const char *whole = cJSON_GetStringValue(json_member(places, value));
	if (whole != NULL)
		return mem_strdup(whole);
	buf out = {0};
	bool any = false;
	for (const char *p = value;;) {
		size_t n = strcspn(p, ";");
		char *part = mem_strndup(p, n);
		const char *real = cJSON_GetStringValue(json_member(places, part));
		any = any || real != NULL;
		buf_puts(&out, real != NULL ? real : part);
		free(part);
		if (p[n] == '\0')
			break;
		buf_putc(&out, ';');
		p += n + 1;
	}
	if (any)
		return buf_detach(&out);
	buf_fini(&out);
	return NULL;
}
