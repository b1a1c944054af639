/* The same for memory that libraries ask for: linked into the agents' programs, where the C library lets a program stand before its allocator.
 *
 * A library that is short of memory does what nobody ever tried: some report an error, some give up a connection and leak, some crash. The
 * answer of mem.h is simpler, and known to be safe: say so, exit, and be started again. Nothing else is changed; free() and what is
 * rarely asked for (aligned pieces) stay the C library's. Left out under sanitizers, which bring an allocator of their own.
 */
#include <stdlib.h>

#include "common/mem.h"

/* The C library's own, under the names that it keeps for this. NOLINTBEGIN(bugprone-reserved-identifier) */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t nmemb, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

void *malloc(size_t size)
{
	void *p = __libc_malloc(size);
	if (p == NULL)
		mem_fail();
	return p;
}

void *calloc(size_t nmemb, size_t size)
{
	void *p = __libc_calloc(nmemb, size);
	if (p == NULL)
		mem_fail();
	return p;
}

void *realloc(void *ptr, size_t size)
{
	void *p = __libc_realloc(ptr, size);
	/* Of no bytes it is free(). */
	if (p == NULL && size > 0)
		mem_fail();
	return p;
}
