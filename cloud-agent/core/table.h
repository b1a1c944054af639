/* A sorted map from text to pointers. Walking it is in the order of the keys, so that two runs with the same input do the same. The table
 * owns its keys, never its values. One owner. */
#ifndef CLOUD_CORE_TABLE_H
#define CLOUD_CORE_TABLE_H

#include <stddef.h>

typedef struct table_entry {
	char *key;
	void *value;
} table_entry;

typedef struct table {
	table_entry *entries;
	size_t n, cap;
} table;

void *table_get(const table *t, const char *key);       /* NULL if absent */
void table_put(table *t, const char *key, void *value); /* replaces */
void *table_remove(table *t, const char *key);          /* the value, or NULL */
void table_fini(table *t);                              /* values are the caller's */

#endif
