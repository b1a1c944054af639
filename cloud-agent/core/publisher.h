/* The retained topics of ours: what they should hold (documents.c), and what they hold (publisher.c). For the files of the core. */
#ifndef CLOUD_CORE_PUBLISHER_H
#define CLOUD_CORE_PUBLISHER_H

#include "cloud-agent/core/core.h"

/* ---- publisher.c ---- */

enum doc_want { WANT_NOTHING, WANT_PUBLISH, WANT_CLEAR };

struct doc { /* one retained topic of ours */
	enum topic_kind kind;
	char *topic, *ns, *name; /* of the job or dataset; "" for an inventory */
	node *node;              /* NULL for a state */
	char *uid, *seen_uid;    /* of what we want there; of a document that is there and not ours */
	enum doc_want want;
	bool queued;
	bool foreign;     /* the broker holds something that is not ours: to be judged */
	doc *prev, *next; /* queue */
	doc *node_next;   /* others of this node, inventory left out */
	bool has_print;
	digest print, wanted; /* of what was published last and of what should be, without stamp and time */
	stamp last;           /* of what was published last; {0,0}: nothing, or it was cleared */
	stamp echoed;         /* the newest of ours that came back on this link */
	stamp cleared;        /* nothing of ours that is newer can still come back; epoch 0: it never was cleared */
	int echoes;           /* clears of ours that the broker has not shown yet */
	bool again;           /* the clear went out a second time */
};

doc *doc_get(controller *c, enum topic_kind kind, const char *ns, const char *name, const char *node_name);
/* This is what it should hold (canonical text, taken; NULL for an inventory); goes out if it is new. */
void doc_set(controller *c, doc *d, const char *uid, char *canonical);
void doc_requeue(controller *c, doc *d); /* to the end, also if it is in the queue already */
void doc_clear(controller *c, doc *d);   /* and, for a node's document, the node's inventory after it */
void docs_queue_all(controller *c);
void docs_queue_node(controller *c, const node *n);
void docs_judge_foreign(controller *c);
void docs_judge_again(controller *c);      /* what was left alone, since it was not known what belongs there: by now it may be */
void docs_new_link(controller *c);         /* what was cleared is forgotten: a topic that comes up again is not ours */
void docs_forget(controller *c, bool all); /* what was cleared: twice, and seen to be; or all of it */
void docs_fini(controller *c);
bool publisher_next(controller *c, cloud_action *out);
void publisher_seen(controller *c, const topic *t, const void *payload, size_t len);

/* ---- documents.c ---- */

/* Texts to be freed; NULL: cannot be made now. s NULL: the canonical text, without stamp and time, by which contents are compared. */
char *document_desired(controller *c, job *j, const char *node_name, const stamp *s);
char *document_state(controller *c, job *j, const stamp *s);
char *document_inventory(controller *c, const node *n, const stamp *s);
char *document_dataset(controller *c, const dataset *d, const char *node_name, const stamp *s);
char *document_presence(const controller *c, bool online, bool will);
/* Bring the wishes of all topics of a job, or a dataset, up to date. */
void job_publish(controller *c, job *j);
void job_unpublish(controller *c, job *j);
void dataset_publish(controller *c, dataset *d);
void dataset_unpublish(controller *c, dataset *d);
/* Publish this node's document of the job (or, if it has none, its inventory) whatever was published before. */
void job_answer(controller *c, job *j, const char *node_name);

#endif
