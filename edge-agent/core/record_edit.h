/* Changing a record that is still a proposal. Inside the core only: a record that was committed is never changed. */
#ifndef EDGE_CORE_RECORD_EDIT_H
#define EDGE_CORE_RECORD_EDIT_H

#include "edge-agent/core/record.h"

/* A desired document, decoded once and shared by all records that hold it. Counted: each _hold and the _new need a _release. */
struct record_document {
	int holders;
	char *text;
	desired *desired;
};
record_document *record_document_new(const char *text, size_t len, desired *d); /* takes d, which is text decoded */
void record_document_release(record_document *doc);                             /* NULL is fine */

/* A copy, with another document if one is given; r may be NULL if one is. */
record *record_copy_with(const record *r, record_document *document);
/* The row that says how a stage ended, or NULL: there is at most one. */
const outbox_row *record_end_row(const record *r, int64_t round, enum stage stage);
/* Take out the rows that `unwanted` names; returns how many. */
size_t record_remove_rows(record *r, bool (*unwanted)(const outbox_row *row, const void *ctx), const void *ctx);
/* Copies the row's texts. There must be no such row yet. When RECORD_MAX_ROWS is reached, the rows of the highest round make room. */
void record_add_row(record *r, const outbox_row *row);

void store_meta_copy(store_meta *to, const store_meta *from);

#endif
