/* What the store of objects knows of a Secret's values: a digest in the place of a spec, so that a value that was changed makes a new version of
 * the object, also over a restart. It has a salt of this store, and who has the store has the manifests too: it tells nobody anything new.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cloud-agent/cluster/local/objects_internal.h"
#include "common/digest.h"
#include "common/json.h"

enum { SECRET_ROOM = 64 * 1024 }; /* a text that needs more leaves pieces of it in memory */

int objects__secret_spec(objects *o, const cJSON *values, cJSON **spec, error *err)
{
	digest d;
	char hex[DIGEST_HEX_SIZE];
	int64_t salt = 0;
	int code = objects__counter_get(o, "salt", &salt, err);
	if (code == 0 && salt == 0) {
		if (getrandom(&salt, sizeof salt, 0) != (ssize_t)sizeof salt)
			abort();
		code = objects__counter_set(o, "salt", salt, err);
	}
	if (code != 0)
		return code;
	sha256 *s = sha256_new();
	char *text = json_print_room(values, SECRET_ROOM);
	sha256_add(s, &salt, sizeof salt);
	sha256_add(s, text, strlen(text));
	sha256_end(s, &d);
	sha256_free(s);
	explicit_bzero(text, strlen(text));
	free(text);
	digest_hex(&d, hex);
	*spec = cJSON_CreateObject();
	json_put_string(*spec, "digest", hex);
	return 0;
}
