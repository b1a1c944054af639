/* When to train and whether to deploy: a timer window AND a condition over one value. Pure; any thread.
 *
 * A condition that is not there holds; so does a timer that is not there.
 */
#ifndef EDGE_CORE_TRIGGER_H
#define EDGE_CORE_TRIGGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "proto/document.h"

enum trigger_answer {
	TRIGGER_NO,      /* the condition does not hold */
	TRIGGER_OUTSIDE, /* it does, but the timer does not: look again */
	TRIGGER_YES,
	TRIGGER_UNKNOWN, /* the condition has no value; err says why */
};

/* Both ends count; start > end crosses midnight; 1440 is the end of the day. */
bool trigger_timer_holds(const trigger *t, int minute);
/* `samples`: the waiting samples that the split gives to training: the metric num_of_samples, the only one there is. */
enum trigger_answer trigger_train(const trigger *t, int64_t samples, int minute, error *err);
/* results: what the eval worker reported, the new model first. Anything but two of them has no answer. On NO, err says what was compared. */
enum trigger_answer trigger_deploy(const trigger *t, const model *results, size_t n, int minute, error *err);

#endif
