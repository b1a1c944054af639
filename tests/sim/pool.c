/* Memory for cJSON's many small pieces, which are most of what a world makes and frees: free lists by size, never given back.
 *
 * Larger pieces come from malloc, and all of them where a sanitizer watches. One thread, one world a process.
 */
#include "tests/sim/pool.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/mem.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WATCHED
#endif

#ifdef WATCHED

void pool_init(void)
{
}

#else

enum { UNIT = 16, CLASSES = 16, BLOCK = 64 * 1024 };

typedef struct piece {
	size_t class;       /* its size in units; CLASSES: from malloc */
	struct piece *next; /* while it is free */
} piece;
_Static_assert(sizeof(piece) == UNIT, "what follows a piece is aligned as it is");

static piece *free_pieces[CLASSES];
static char *block;
static size_t left;

static piece *cut(size_t size)
{
	piece *p;

	if (left < size) {
		block = mem_resize(NULL, BLOCK);
		left = BLOCK;
	}
	p = (piece *)(void *)block;
	block += size;
	left -= size;
	return p;
}

static void *take(size_t size)
{
	size_t class = (size + UNIT - 1) / UNIT;
	piece *p;

	if (class >= CLASSES) {
		class = CLASSES;
		p = mem_resize(NULL, sizeof(*p) + size);
	} else if (free_pieces[class] != NULL) {
		p = free_pieces[class];
		free_pieces[class] = p->next;
	} else {
		p = cut(sizeof(*p) + class * UNIT);
	}
	p->class = class;
	return p + 1;
}

static void give(void *data)
{
	piece *p = data;

	if (p == NULL)
		return;
	p--;
	if (p->class == CLASSES) {
		free(p);
		return;
	}
	p->next = free_pieces[p->class];
	free_pieces[p->class] = p;
}

void pool_init(void)
{
	cJSON_Hooks hooks = {.malloc_fn = take, .free_fn = give};

	cJSON_InitHooks(&hooks);
}

#endif
