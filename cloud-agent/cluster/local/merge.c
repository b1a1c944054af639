/* JSON merge patch: see merge.h for the contract. Patches come from json_parse or the core, so their depth is bounded. */
#include "cloud-agent/cluster/local/merge.h"

#include <stddef.h>

#include "common/json.h"

cJSON *merge_patch(cJSON *target, const cJSON *patch)
{
	if (!cJSON_IsObject(patch)) {
		cJSON_Delete(target);
		return cJSON_Duplicate(patch, 1);
	}
	if (!cJSON_IsObject(target)) {
		cJSON_Delete(target);
		target = cJSON_CreateObject();
	}
	const cJSON *member;
	cJSON_ArrayForEach(member, patch) {
		cJSON *old = cJSON_DetachItemFromObjectCaseSensitive(target, member->string);
		if (cJSON_IsNull(member))
			cJSON_Delete(old);
		else
			json_put(target, member->string, merge_patch(old, member));
	}
	return target;
}
