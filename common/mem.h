/* Memory that does not fail, and arenas.
 *
 * Every allocation here is bounded by a limit that was checked before, so running out of memory means that the machine has none left.
 * Restarting is always safe (all that matters is durable), so the answer is to say so and exit: no half-done state, and no error path
 * that nobody ever ran. `mem_init` gives cJSON the same allocator.
 *
 * An arena owns what a decoded document or a plan consists of: many small pieces with one life. Not thread-safe; one owner.
 */
#ifndef COMMON_MEM_H
#define COMMON_MEM_H

#include <stdarg.h>
#include <stddef.h>

/* Call first in main (and in a test's main): cJSON then allocates through mem_alloc. */
void mem_init(void);

/* What all of these do when there is none: say so and exit, with status 70. For a library's allocator. */
_Noreturn void mem_fail(void);

void *mem_alloc(size_t size);                           /* zeroed; exits on failure; free() it */
void *mem_resize(void *p, size_t size);                 /* like realloc; exits on failure */
void *mem_resize_array(void *p, size_t n, size_t each); /* exits on overflow */
char *mem_strdup(const char *s);                        /* NULL gives NULL */
/* *to becomes a copy of `text`, which may be a part of what it was, or NULL. */
void mem_replace(char **to, const char *text);
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

typedef struct arena arena;
arena *arena_new(void);
void arena_free(arena *a);                   /* NULL is fine */
void *arena_alloc(arena *a, size_t size);    /* zeroed, aligned for any type */
char *arena_strdup(arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(arena *a, const char *s, size_t n);
char *arena_printf(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `destroy(p)` runs when the arena is freed, last registered first: for a cJSON tree that belongs to a document. */
void arena_own(arena *a, void *p, void (*destroy)(void *));

#endif
