/* What the document codecs share and nobody else needs: reading with one sticky error, writing, and the pieces.
 *
 * Reading. A `reading` remembers its first failure; every read__ function does nothing afterwards. So a decoder is a straight list of
 * members, and looks at the outcome once, in read__end. What a read__ function returns after a failure is zero, NULL or false.
 * Text and JSON values point into the parsed tree, which belongs to the document's arena.
 *
 * `obj` is the object that holds the member, `where` its path ("desired.trained"), used in error texts alone. null counts as absent.
 */
#ifndef PROTO_DOCUMENT_INTERNAL_H
#define PROTO_DOCUMENT_INTERNAL_H

#include "common/json.h"
#include "proto/document.h"

enum {
	TEXT_MAX_TIME = 40,
	TEXT_MAX_WORD = 64, /* formats, versions, sessions, devices, capabilities */
	TEXT_MAX_CLIENT = 128,
	TEXT_MAX_METRIC = 512,
	DOCUMENT_MAX_SOCS = 32,
	DOCUMENT_MAX_CAPABILITIES = 32,
	DOCUMENT_MAX_COPIES = 8,
	TRIGGER_MAX_PERIOD_S = 366 * 86400,
};

typedef struct reading {
	arena *mem;
	error *err;
	int code;
} reading;

enum need { OPTIONAL, NEEDED };

/* Parse a payload and check that it is an object with "v": 1. `what` begins every path. NULL after a failure. */
const cJSON *read__begin(reading *r, const char *what, const char *data, size_t len, error *err);
/* The outcome; after a failure the arena is gone. */
int read__end(reading *r);
/* Record a failure; the text is "where.name: <message>". */
void read__fail(reading *r, const char *where, const char *name, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Text of at most `max` bytes without control characters. */
const char *read__text(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max);
/* The same, but not empty. */
const char *read__word(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max);
/* Text for people: any characters. */
const char *read__prose(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max);
/* Text that `valid` accepts; `kind` says what it should be ("a namespace"). */
const char *read__name(reading *r, const cJSON *obj, const char *where, const char *name, bool (*valid)(const char *), const char *kind);
/* True if the member is there and right. *out is left alone otherwise. */
bool read__int(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, int64_t min, int64_t max, int64_t *out);
bool read__double(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, double *out);
bool read__bool(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, bool *out);
const cJSON *read__object(reading *r, const cJSON *obj, const char *where, const char *name, enum need need);
/* An array of at most `max` entries. */
const cJSON *read__array(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max, size_t *n);
/* Strings that `valid` accepts (NULL: words of at most TEXT_MAX_WORD bytes). */
const char **read__strings(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max,
	bool (*valid)(const char *), size_t *n);
/* Any JSON value; NULL if absent or null. */
const cJSON *read__any(reading *r, const cJSON *obj, const char *name);

/* The path of a member or of an entry of an array, in the arena. */
const char *path__member(reading *r, const char *where, const char *name);
const char *path__entry(reading *r, const char *where, const char *name, size_t i);

/* Pieces. */
stamp read__stamp(reading *r, const cJSON *obj, const char *where);
job_ref read__job(reading *r, const cJSON *obj, const char *where);
const char *read__node(reading *r, const cJSON *obj, const char *where);
const char *read__ts(reading *r, const cJSON *obj, const char *where, enum need need);
/* The members round, stage and phase of `obj` itself. */
position read__position(reading *r, const cJSON *obj, const char *where, int64_t min_round);
model *read__models(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t *n);
void read__model(reading *r, const cJSON *obj, const char *where, model *out);
bool read__cursor(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, cursor *out);
bool read__digest(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, digest *out);
/* Versions of a deployed model, at most DOCUMENT_MAX_VERSIONS. */
model_version *read__versions(reading *r, const cJSON *obj, const char *where, const char *name, size_t *n);
void read__dataset_id(reading *r, const cJSON *obj, const char *where, dataset_ref *out);
/* With url and format. */
void read__dataset(reading *r, const cJSON *obj, const char *where, dataset_ref *out);
void read__trigger(reading *r, const cJSON *obj, const char *where, const char *name, trigger *out);

/* The member `credentials` of `obj`, which may be missing. */
credential_need *read__credentials(reading *r, const cJSON *obj, const char *where, size_t *n);

bool uid_valid(const char *s); /* letters, digits, '-', '_', '.': it becomes part of file names */

/* Writing: members in the order of the calls. */
cJSON *write__begin(const char *ts); /* {"v":1,"ts":…} */
char *write__end(cJSON *root);       /* compact text; frees the tree */
void write__stamp(cJSON *obj, stamp s);
void write__job(cJSON *obj, const job_ref *job);
void write__position(cJSON *obj, position p); /* round, stage, phase into `obj` itself */
void write__models(cJSON *obj, const char *name, const model *models, size_t n);
void write__versions(cJSON *obj, const char *name, const model_version *versions, size_t n);
void write__digest(cJSON *obj, const char *name, const digest *d);
void write__cursor(cJSON *obj, const char *name, const cursor *c);
cJSON *write__dataset_id(const dataset_ref *d);
void write__strings(cJSON *obj, const char *name, const char **strings, size_t n);
void write__credentials(cJSON *obj, const credential_need *needs, size_t n); /* none: nothing is added */
void write__copy(cJSON *obj, const char *name, const cJSON *value);          /* a copy of any JSON; NULL adds nothing */
/* Text for people, cut to `max` bytes and made valid UTF-8: an error text that names a strange file never spoils the document. */
void write__prose(cJSON *obj, const char *name, const char *text, size_t max);

#endif
