/* Running a libuv loop in a test until something is so. */
#ifndef TESTS_INTEGRATION_LOOP_H
#define TESTS_INTEGRATION_LOOP_H

#include <stdbool.h>
#include <uv.h>

struct loop_deadline {
	uv_timer_t timer;
	uint64_t end; /* of the loop's clock */
	bool passed;
};

/* Use loop_until instead. */
struct loop_deadline *loop_deadline_new(uv_loop_t *loop, unsigned ms);
bool loop_turn(uv_loop_t *loop, const struct loop_deadline *d); /* false: time is over */
void loop_deadline_free(uv_loop_t *loop, struct loop_deadline *d);
void loop_too_late(const char *condition, unsigned ms, const char *file, int line);

/* Run the loop until `condition` (looked at after each turn, and now and then) holds; the test fails if it does not within `ms`. */
#define loop_until(loop, condition, ms)                                                                                                    \
	do {                                                                                                                                   \
		struct loop_deadline *loop_d = loop_deadline_new(loop, ms);                                                                        \
		bool loop_ok;                                                                                                                      \
		while (!(loop_ok = (condition)) && loop_turn(loop, loop_d))                                                                        \
			continue;                                                                                                                      \
		loop_deadline_free(loop, loop_d);                                                                                                  \
		if (!loop_ok)                                                                                                                      \
			loop_too_late(#condition, ms, __FILE__, __LINE__);                                                                             \
	} while (0)

/* For what must not happen: run the loop for so long. */
void loop_for(uv_loop_t *loop, unsigned ms);
/* Close a loop that has nothing left to do; the test fails if it has. */
void loop_fini(uv_loop_t *loop);

#endif
