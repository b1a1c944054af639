/* A sorted array with binary search: see table.h. Insertion moves what is behind; the tables here hold thousands, and change rarely. */
#include "cloud-agent/core/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Where the key is, or where it would be put. */
static size_t find(const table *t, const char *key, int *found)
{
	size_t low = 0, high = t->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(t->entries[middle].key, key);
		if (order == 0) {
			*found = 1;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = 0;
	return low;
}

void *table_get(const table *t, const char *key)
{
	int found;
	size_t i = find(t, key, &found);
	return found ? t->entries[i].value : NULL;
}

void table_put(table *t, const char *key, void *value)
{
	int found;
	size_t i = find(t, key, &found);
	if (found) {
		t->entries[i].value = value;
		return;
	}
	if (t->n == t->cap) {
		t->cap = t->cap == 0 ? 16 : t->cap * 2;
		t->entries = mem_resize_array(t->entries, t->cap, sizeof *t->entries);
	}
	memmove(t->entries + i + 1, t->entries + i, (t->n - i) * sizeof *t->entries);
	t->entries[i] = (table_entry){.key = mem_strdup(key), .value = value};
	t->n++;
}

void *table_remove(table *t, const char *key)
{
	int found;
	size_t i = find(t, key, &found);
	if (!found)
		return NULL;
	void *value = t->entries[i].value;
	free(t->entries[i].key);
	t->n--;
	memmove(t->entries + i, t->entries + i + 1, (t->n - i) * sizeof *t->entries);
	return value;
}

void table_fini(table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->entries[i].key);
	free(t->entries);
	*t = (table){0};
}
