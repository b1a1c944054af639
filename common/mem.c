/* Memory that does not fail, and arenas: see mem.h for the contract.
 *
 * An arena is a list of chunks, each twice as large as the one before up to a limit, since most arenas stay small; a piece is cut from the
 * newest chunk, or gets a chunk of its own when it is large. Pieces are never given back one by one. What has to be undone when the arena ends (a cJSON tree, a file) is kept in a list inside the arena itself.
 */
#include "common/mem.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NO_MEMORY = 70, SHORT_TEXT = 160, CHUNK_SMALLEST = 480, CHUNK_SIZE = 4096 - 64, LARGE_PIECE = 1024 };

/* No stdio buffers, no atexit handlers: they may want memory, or a lock that this thread holds. */
void mem_fail(void)
{
	static const char text[] = "out of memory: ending; nothing that was acknowledged is lost\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
	(void)n;
	_exit(EXIT_NO_MEMORY);
}

/* cJSON fills what it asks for by itself, so its memory need not be zeroed. */
static void *alloc_for_cjson(size_t size)
{
	void *p = malloc(size > 0 ? size : 1);
	if (p == NULL)
		mem_fail();
	return p;
}

void mem_init(void)
{
	cJSON_Hooks hooks = {.malloc_fn = alloc_for_cjson, .free_fn = free};
	cJSON_InitHooks(&hooks);
}

void *mem_alloc(size_t size)
{
	void *p = calloc(1, size > 0 ? size : 1);
	if (p == NULL)
		mem_fail();
	return p;
}

void *mem_resize(void *p, size_t size)
{
	void *q = realloc(p, size > 0 ? size : 1);
	if (q == NULL)
		mem_fail();
	return q;
}

void *mem_resize_array(void *p, size_t n, size_t each)
{
	size_t size;
	if (__builtin_mul_overflow(n, each, &size))
		mem_fail();
	return mem_resize(p, size);
}

char *mem_strdup(const char *s)
{
	return s != NULL ? mem_strndup(s, strlen(s)) : NULL;
}

void mem_replace(char **to, const char *text)
{
	char *copy = mem_strdup(text);
	free(*to);
	*to = copy;
}

char *mem_strndup(const char *s, size_t n)
{
	if (s == NULL)
		return NULL;
	size_t len = strnlen(s, n);
	char *copy = mem_resize(NULL, len + 1);
	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

/* The length of the formatted text, of which `out` gets what fits, so that short texts are formatted once. Formatting fails for lack of
 * memory, or for text of more than INT_MAX bytes. */
static size_t format_short(char *out, size_t size, const char *fmt, va_list args)
{
	va_list copy;
	va_copy(copy, args);
	int n = vsnprintf(out, size, fmt, copy);
	va_end(copy);
	if (n < 0)
		mem_fail();
	return (size_t)n;
}

char *mem_printf(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char small[SHORT_TEXT];
	size_t len = format_short(small, sizeof small, fmt, args);
	char *text = mem_resize(NULL, len + 1);
	if (len < sizeof small)
		memcpy(text, small, len + 1);
	else
		vsnprintf(text, len + 1, fmt, args);
	va_end(args);
	return text;
}

typedef struct chunk chunk;
struct chunk {
	chunk *next;
	size_t used, size;
	max_align_t bytes[];
};

typedef struct owned owned;
struct owned {
	owned *next;
	void *p;
	void (*destroy)(void *);
};

struct arena {
	chunk *chunks; /* the first one is being cut */
	owned *owned;  /* the first one was registered last */
};

arena *arena_new(void)
{
	return mem_alloc(sizeof(arena));
}

void arena_free(arena *a)
{
	if (a == NULL)
		return;
	for (owned *o = a->owned; o != NULL; o = o->next)
		o->destroy(o->p);
	while (a->chunks != NULL) {
		chunk *c = a->chunks;
		a->chunks = c->next;
		free(c);
	}
	free(a);
}

static chunk *chunk_new(size_t size)
{
	size_t whole;
	if (__builtin_add_overflow(size, sizeof(chunk), &whole))
		mem_fail();
	chunk *c = mem_alloc(whole);
	c->size = size;
	return c;
}

void *arena_alloc(arena *a, size_t size)
{
	const size_t align = sizeof(max_align_t) - 1;
	size_t need;
	if (__builtin_add_overflow(size > 0 ? size : 1, align, &need))
		mem_fail();
	need &= ~align;
	chunk *first = a->chunks;
	if (need > LARGE_PIECE) {
		/* Behind the chunk that is being cut, whose rest stays in use. */
		chunk *c = chunk_new(need);
		c->used = need;
		if (first != NULL) {
			c->next = first->next;
			first->next = c;
		} else {
			a->chunks = c;
		}
		return c->bytes;
	}
	if (first == NULL || first->size - first->used < need) {
		size_t next = first == NULL ? CHUNK_SMALLEST : first->size * 2;
		while (next < need)
			next *= 2;
		chunk *c = chunk_new(next < CHUNK_SIZE ? next : CHUNK_SIZE);
		c->next = first;
		a->chunks = first = c;
	}
	void *p = (char *)first->bytes + first->used;
	first->used += need;
	return p;
}

char *arena_strdup(arena *a, const char *s)
{
	return s != NULL ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_strndup(arena *a, const char *s, size_t n)
{
	if (s == NULL)
		return NULL;
	size_t len = strnlen(s, n);
	char *copy = arena_alloc(a, len + 1);
	memcpy(copy, s, len);
	return copy;
}

char *arena_printf(arena *a, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char small[SHORT_TEXT];
	size_t len = format_short(small, sizeof small, fmt, args);
	char *text = arena_alloc(a, len + 1);
	if (len < sizeof small)
		memcpy(text, small, len + 1);
	else
		vsnprintf(text, len + 1, fmt, args);
	va_end(args);
	return text;
}

void arena_own(arena *a, void *p, void (*destroy)(void *))
{
	owned *o = arena_alloc(a, sizeof *o);
	*o = (owned){.next = a->owned, .p = p, .destroy = destroy};
	a->owned = o;
}
