/* Which of a train worker's results serves which target.
 *
 * Workers post one result per saved model, often two: one to serve with, one to go on training from. Two results that both fit the target, or
 * none of them, are told apart by their order: the first serves, the second is trained on. Otherwise the first that fits the target is taken:
 * same format, and, where the target lists devices and the result is for exactly one, one of those. If none fits, the first serves and the
 * last is trained on.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

static bool fits(const model *result, const model *target)
{
	if (strcmp(result->format, target->format) != 0)
		return false;
	if (target->n_socs == 0 || result->n_socs != 1)
		return true;
	for (size_t i = 0; i < target->n_socs; i++) {
		if (strcmp(target->socs[i], result->socs[0]) == 0)
			return true;
	}
	return false;
}

const model *model_select(const model *list, size_t n, const model *target, enum model_use use)
{
	const model *first = NULL;
	size_t fitting = 0;
	for (size_t i = 0; i < n; i++) {
		if (!fits(&list[i], target))
			continue;
		if (first == NULL)
			first = &list[i];
		fitting++;
	}
	if (n == 0)
		return NULL;
	if (fitting == 0 || (n == 2 && fitting == 2))
		return use == USE_SERVE ? &list[0] : &list[n - 1];
	return first;
}
