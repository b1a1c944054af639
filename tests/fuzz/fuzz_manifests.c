/* Any bytes as a manifest file: no crash, and whatever is taken has what its kind needs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/manifests.h"
#include "common/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	manifest_file f;
	manifest_parse("f.yaml", (const char *)data, size, &f);
	for (size_t i = 0; i < f.n; i++) {
		const manifest *m = &f.items[i];
		if (m->name[0] == '\0' || m->ns[0] == '\0' || (m->kind == OBJECT_SECRET) != (m->spec == NULL))
			abort();
		if (m->kind == OBJECT_DATASET && (json_member(m->spec, "url") == NULL || json_member(m->spec, "format") == NULL))
			abort();
		char *text = json_print(m->spec);
		free(text);
	}
	for (size_t i = 0; i < f.n_problems; i++) {
		if (f.problems[i].text[0] == '\0')
			abort();
	}
	manifest_file_fini(&f);
	return 0;
}
