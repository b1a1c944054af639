/* JSON merge patch (RFC 7386): members that the patch names replace those of the target, null removes one, objects are merged member by
 * member, arrays and all else are replaced whole. Pure.
 */
#ifndef LOCAL_MERGE_H
#define LOCAL_MERGE_H

#include <cjson/cJSON.h>

/* `target` (taken; may be NULL) with the patch applied; to be freed. */
cJSON *merge_patch(cJSON *target, const cJSON *patch);

#endif
