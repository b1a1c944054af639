/* The judge's questions as requests to the API server, and the server's answers as facts. Pure; what is made belongs to the arena of the facts. */
#ifndef ENROLMENT_QUESTIONS_H
#define ENROLMENT_QUESTIONS_H

#include <cjson/cJSON.h>

#include "cloud-agent/enrolment/judge.h"

typedef struct enrol_question {
	const char *method, *path;
	const char *content_type; /* NULL: no body */
	char *body;               /* to be freed with file_secret_free: it may hold the token. NULL: none */
} enrol_question;

/* For REVIEW, POD, SECRET, BIND and REMOVE. */
void enrol_question_make(const enrol_settings *s, const enrol_facts *f, enum enrol_step step, enrol_question *out);
/* code: 0 with the object, or a negative error code with its text. */
void enrol_question_answered(enrol_facts *f, enum enrol_step step, int code, const char *text, const cJSON *object);

#endif
