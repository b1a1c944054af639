/* What a device's store holds: committed facts, which may be copied (a backup), put back, or lost. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

static char **copy_list(char **list, size_t n)
{
	char **out = mem_alloc((n + 1) * sizeof(*out));

	for (size_t i = 0; i < n; i++)
		out[i] = mem_strdup(list[i]);
	return out;
}

static void meta_copy(store_meta *to, const store_meta *from)
{
	*to = *from;
	to->jobs = copy_list(from->jobs, from->n_jobs);
	to->datasets = copy_list(from->datasets, from->n_datasets);
}

static size_t job_index(const saved *s, const char *uid)
{
	size_t i = 0;

	while (i < s->n_jobs && strcmp(s->jobs[i]->desired->job.uid, uid) != 0)
		i++;
	return i;
}

static void put_job(saved *s, const char *uid, const record *r)
{
	size_t i = job_index(s, uid);

	if (i == s->n_jobs) {
		s->jobs = mem_resize_array(s->jobs, s->n_jobs + 1, sizeof(*s->jobs));
		s->n_jobs++;
	} else {
		record_free(s->jobs[i]);
	}
	s->jobs[i] = record_copy(r);
}

static void drop_job(saved *s, const char *uid)
{
	size_t i = job_index(s, uid);

	if (i == s->n_jobs)
		return;
	record_free(s->jobs[i]);
	s->jobs[i] = s->jobs[--s->n_jobs];
}

static size_t dataset_index(const saved *s, const char *uid)
{
	size_t i = 0;

	while (i < s->n_datasets && strcmp(s->dataset_uids[i], uid) != 0)
		i++;
	return i;
}

static void put_dataset(saved *s, const char *uid, const char *text)
{
	size_t i = dataset_index(s, uid);

	if (i == s->n_datasets) {
		s->dataset_uids = mem_resize_array(s->dataset_uids, i + 1, sizeof(*s->dataset_uids));
		s->datasets = mem_resize_array(s->datasets, i + 1, sizeof(*s->datasets));
		s->dataset_uids[i] = mem_strdup(uid);
		s->n_datasets++;
	} else {
		free(s->datasets[i]);
	}
	s->datasets[i] = mem_strdup(text);
}

static void drop_dataset(saved *s, const char *uid)
{
	size_t i = dataset_index(s, uid);

	if (i == s->n_datasets)
		return;
	free(s->dataset_uids[i]);
	free(s->datasets[i]);
	s->n_datasets--;
	s->dataset_uids[i] = s->dataset_uids[s->n_datasets];
	s->datasets[i] = s->datasets[s->n_datasets];
}

static void early_free(provisional *p)
{
	free(p->worker);
	free(p->ns);
	free(p->job);
	free(p->body);
}

static provisional early_copy(const provisional *p)
{
	return (provisional){.worker = mem_strdup(p->worker),
		.ns = mem_strdup(p->ns),
		.job = mem_strdup(p->job),
		.kind = p->kind,
		.body = mem_strdup(p->body),
		.uptime_ms = p->uptime_ms};
}

static void drop_early(saved *s, const provisional *p)
{
	for (size_t i = 0; i < s->n_early; i++) {
		if (provisional_same(&s->early[i], p)) {
			early_free(&s->early[i]);
			s->early[i] = s->early[--s->n_early];
			return;
		}
	}
}

static void put_early(saved *s, const provisional *p)
{
	provisional copy = early_copy(p);

	drop_early(s, p);
	s->early = mem_resize_array(s->early, s->n_early + 1, sizeof(*s->early));
	s->early[s->n_early++] = copy;
}

void saved_apply(saved *s, const edge_change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const edge_change *c = &changes[i];

		switch (c->kind) {
		case CHANGE_PUT_JOB:
			put_job(s, c->uid, c->record);
			break;
		case CHANGE_DROP_JOB:
			drop_job(s, c->uid);
			break;
		case CHANGE_PUT_META:
			store_meta_fini(&s->meta);
			meta_copy(&s->meta, c->meta);
			break;
		case CHANGE_PUT_DATASET:
			put_dataset(s, c->uid, c->text);
			break;
		case CHANGE_DROP_DATASET:
			drop_dataset(s, c->uid);
			break;
		case CHANGE_PUT_PROVISIONAL:
			put_early(s, c->provisional);
			break;
		case CHANGE_DROP_PROVISIONAL:
			drop_early(s, c->provisional);
			break;
		}
	}
}

void saved_copy(saved *to, const saved *from)
{
	*to = (saved){0};
	meta_copy(&to->meta, &from->meta);
	for (size_t i = 0; i < from->n_jobs; i++)
		put_job(to, from->jobs[i]->desired->job.uid, from->jobs[i]);
	for (size_t i = 0; i < from->n_datasets; i++)
		put_dataset(to, from->dataset_uids[i], from->datasets[i]);
	for (size_t i = 0; i < from->n_early; i++)
		put_early(to, &from->early[i]);
}

void saved_fini(saved *s)
{
	store_meta_fini(&s->meta);
	for (size_t i = 0; i < s->n_jobs; i++)
		record_free(s->jobs[i]);
	for (size_t i = 0; i < s->n_datasets; i++) {
		free(s->dataset_uids[i]);
		free(s->datasets[i]);
	}
	for (size_t i = 0; i < s->n_early; i++)
		early_free(&s->early[i]);
	free(s->jobs);
	free(s->dataset_uids);
	free(s->datasets);
	free(s->early);
	*s = (saved){0};
}
