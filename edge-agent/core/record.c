/* Records: see record.h for the contract.
 *
 * A record owns one arena with everything in it but the document, which is decoded once and shared by the copies: most copies change a row
 * or the allocation alone, and decoding would be most of their cost. Else a copy shares nothing with its original, so that a proposal can be
 * thrown away, or the original replaced, in any order.
 *
 * Edits of a record's rows (record_edit.h) are for a record that is still a proposal.
 */
#include "edge-agent/core/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/record_edit.h"

record *record_new(void)
{
	arena *mem = arena_new();
	record *r = arena_alloc(mem, sizeof(*r));

	r->mem = mem;
	return r;
}

record_document *record_document_new(const char *text, size_t len, desired *d)
{
	record_document *doc = mem_alloc(sizeof(*doc));

	doc->holders = 1;
	doc->text = mem_strndup(text, len);
	doc->desired = d;
	return doc;
}

void record_document_release(record_document *doc)
{
	if (doc == NULL || --doc->holders > 0)
		return;
	desired_free(doc->desired);
	free(doc->text);
	free(doc);
}

static void document_let_go(void *p)
{
	record_document_release(p);
}

/* The record's arena lets go of it in the end. */
static void document_hold(record *r, record_document *doc)
{
	doc->holders++;
	arena_own(r->mem, doc, document_let_go);
	r->shared = doc;
	r->document = doc->text;
	r->desired = doc->desired;
}

int record_set_document(record *r, const char *text, size_t len, error *err)
{
	record_document *doc;
	desired *d;
	int code = desired_decode(text, len, &d, err);

	if (code != 0)
		return code;
	doc = record_document_new(text, len, d);
	document_hold(r, doc);
	record_document_release(doc);
	return 0;
}

static outbox_row row_copy(arena *mem, const outbox_row *row)
{
	outbox_row copy = *row;

	copy.reason = arena_strdup(mem, row->reason);
	copy.payload = arena_strdup(mem, row->payload);
	return copy;
}

record *record_copy_with(const record *r, record_document *document)
{
	record *copy = record_new();
	record_document *doc = document != NULL ? document : r->shared;

	if (doc != NULL)
		document_hold(copy, doc);
	if (r == NULL)
		return copy;
	copy->has_base = r->has_base;
	copy->base = r->base;
	copy->has_alloc = r->has_alloc;
	copy->alloc = r->alloc;
	copy->removed = r->removed;
	if (r->n_rows > 0) {
		copy->rows = arena_alloc(copy->mem, r->n_rows * sizeof(*copy->rows));
		for (size_t i = 0; i < r->n_rows; i++)
			copy->rows[i] = row_copy(copy->mem, &r->rows[i]);
		copy->n_rows = r->n_rows;
	}
	return copy;
}

record *record_copy(const record *r)
{
	return record_copy_with(r, NULL);
}

void record_free(record *r)
{
	if (r != NULL)
		arena_free(r->mem);
}

const outbox_row *record_row(const record *r, int64_t round, enum stage stage, enum report_what what)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		const outbox_row *row = &r->rows[i];

		if (row->position.round == round && row->position.stage == stage && row->what == what)
			return row;
	}
	return NULL;
}

const outbox_row *record_end_row(const record *r, int64_t round, enum stage stage)
{
	const outbox_row *row = record_row(r, round, stage, REPORT_COMPLETED);

	return row != NULL ? row : record_row(r, round, stage, REPORT_FAILED);
}

size_t record_remove_rows(record *r, bool (*unwanted)(const outbox_row *row, const void *ctx), const void *ctx)
{
	size_t kept = 0, removed;

	for (size_t i = 0; i < r->n_rows; i++) {
		if (!unwanted(&r->rows[i], ctx))
			r->rows[kept++] = r->rows[i];
	}
	removed = r->n_rows - kept;
	r->n_rows = kept;
	return removed;
}

static bool is_of_round(const outbox_row *row, const void *ctx)
{
	return row->position.round == *(const int64_t *)ctx;
}

/* Room for one more. Rounds above the present one are there only after the cluster was restored; they are what can be missed most easily:
 * the worst that follows is that a stage of theirs is asked for again. */
static void make_room(record *r)
{
	while (r->n_rows >= RECORD_MAX_ROWS) {
		int64_t highest = 0;

		for (size_t i = 0; i < r->n_rows; i++) {
			if (r->rows[i].position.round > highest)
				highest = r->rows[i].position.round;
		}
		record_remove_rows(r, is_of_round, &highest);
	}
}

void record_add_row(record *r, const outbox_row *row)
{
	outbox_row *rows;

	assert(record_row(r, row->position.round, row->position.stage, row->what) == NULL);
	make_room(r);
	rows = arena_alloc(r->mem, (r->n_rows + 1) * sizeof(*rows));
	for (size_t i = 0; i < r->n_rows; i++)
		rows[i] = r->rows[i];
	rows[r->n_rows] = row_copy(r->mem, row);
	r->rows = rows;
	r->n_rows++;
}

static void texts_free(char **texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(texts[i]);
	free(texts);
}

static char **texts_copy(char *const *texts, size_t n)
{
	char **copy = n > 0 ? mem_alloc(n * sizeof(*copy)) : NULL;

	for (size_t i = 0; i < n; i++)
		copy[i] = mem_strdup(texts[i]);
	return copy;
}

void store_meta_fini(store_meta *m)
{
	texts_free(m->jobs, m->n_jobs);
	texts_free(m->datasets, m->n_datasets);
	m->jobs = m->datasets = NULL;
	m->n_jobs = m->n_datasets = 0;
}

void store_meta_copy(store_meta *to, const store_meta *from)
{
	*to = *from;
	to->jobs = texts_copy(from->jobs, from->n_jobs);
	to->datasets = texts_copy(from->datasets, from->n_datasets);
}

bool provisional_same(const provisional *a, const provisional *b)
{
	return a->kind == b->kind && strcmp(a->worker, b->worker) == 0 && strcmp(a->job, b->job) == 0 && strcmp(a->ns, b->ns) == 0;
}
