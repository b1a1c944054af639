/* The dataset files that are watched, and what was last seen of them.
 *
 * A file is known by (url, format); the datasets and jobs that read it share it. What was seen of a file stays as long as anybody watches
 * it. The list is made anew whenever a commit changed documents, so nothing is watched for a document that may still be lost.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

static edge_file *file_find(const edge_agent *a, const char *url, enum dataset_format format)
{
	for (size_t i = 0; i < a->n_files; i++) {
		if (a->files[i]->format == format && strcmp(a->files[i]->url, url) == 0)
			return a->files[i];
	}
	return NULL;
}

static edge_file *file_use(edge_agent *a, const char *url, enum dataset_format format)
{
	edge_file *f = file_find(a, url, format);

	if (f == NULL) {
		f = mem_alloc(sizeof(*f));
		f->url = mem_strdup(url);
		f->format = format;
		a->files = mem_resize_array(a->files, a->n_files + 1, sizeof(*a->files));
		a->files[a->n_files++] = f;
	}
	f->used = true;
	return f;
}

static void file_free(edge_file *f)
{
	free(f->url);
	free(f->error);
	free(f);
}

static void job_file_set(job *j, edge_file *f)
{
	if (j->file == f)
		return;
	/* Another file: what was seen in the old one means nothing here. */
	j->file = f;
	j->located.valid = false;
	j->outcome.measured = j->outcome.base_measured = false;
	j->seen = false;
	j->check_dirty = true;
}

/* Once for each change: the log is where one looks first. */
static void dataset_say(dataset *d)
{
	const char *text = d->file != NULL ? d->file->view.error : NULL;

	if (d->file != NULL && !d->file->view.looked)
		return;
	if (text == NULL ? d->trouble == NULL : d->trouble != NULL && strcmp(d->trouble, text) == 0)
		return;
	if (text != NULL)
		log_warn("dataset", "the dataset cannot be read", L_STR("namespace", d->ns), L_STR("dataset", d->name), L_STR("error", text));
	else if (d->file != NULL)
		log_info("dataset", "the dataset can be read again", L_STR("namespace", d->ns), L_STR("dataset", d->name));
	free(d->trouble);
	d->trouble = mem_strdup(text);
}

void files__refresh(edge_agent *a)
{
	size_t left = 0;

	for (size_t i = 0; i < a->n_files; i++)
		a->files[i]->used = false;
	for (size_t i = 0; i < a->n_datasets; i++) {
		dataset *d = a->datasets[i];
		edge_file *f = d->doc != NULL ? file_use(a, d->doc->dataset.url, d->doc->dataset.format) : NULL;

		d->dirty |= f != d->file;
		d->file = f;
		dataset_say(d);
	}
	for (size_t i = 0; i < a->n_jobs; i++) {
		const record *r = a->jobs[i]->rec;
		bool reads = r != NULL && job__has_role(r, ROLE_DATASET) && r->desired->has_dataset;

		job_file_set(a->jobs[i], reads ? file_use(a, r->desired->dataset.url, r->desired->dataset.format) : NULL);
	}
	for (size_t i = 0; i < a->n_files; i++) {
		if (a->files[i]->used)
			a->files[left++] = a->files[i];
		else
			file_free(a->files[i]);
	}
	a->n_files = left;
}

bool edge_agent_watch(const edge_agent *a, size_t i, const char **url, enum dataset_format *format)
{
	if (i >= a->n_files)
		return false;
	*url = a->files[i]->url;
	*format = a->files[i]->format;
	return true;
}

bool edge_agent_output(const edge_agent *a, size_t i, const char **url)
{
	if (i >= a->n_jobs)
		return false;
	*url = a->jobs[i]->rec != NULL && a->jobs[i]->rec->desired->output_dir != NULL ? a->jobs[i]->rec->desired->output_dir : "";
	return true;
}

/* The number after the last sample of the file can be told once the job knows where it is in this very file. If it is lower than before
 * although the file begins as the job remembers, samples at its end went before a round took them. */
void files__note_seen(job *j)
{
	const located *l = &j->located;
	int64_t end;

	if (j->file == NULL || !l->valid || !j->file->view.looked || j->file->view.error != NULL || j->file->view.generation != l->generation)
		return;
	end = l->begin.sample + (j->file->view.samples > l->line ? j->file->view.samples - l->line : 0);
	if (j->seen && end < j->seen_end)
		j->removed += j->seen_end - end;
	j->seen = true;
	j->seen_end = end;
	j->seen_generation = l->generation;
}

static bool view_equal(const dataset_view *x, const dataset_view *y)
{
	return x->looked == y->looked && x->generation == y->generation && x->samples == y->samples && x->size == y->size &&
		x->waiting_bytes == y->waiting_bytes && x->skipped == y->skipped && x->changed_ms == y->changed_ms &&
		(x->error == NULL) == (y->error == NULL) && (x->error == NULL || strcmp(x->error, y->error) == 0);
}

void edge_agent_dataset(edge_agent *a, const char *url, enum dataset_format format, const dataset_view *view, moment now)
{
	edge_file *f = file_find(a, url, format);

	(void)now;
	a->stale = true;
	if (f == NULL || view_equal(&f->view, view))
		return;
	free(f->error);
	f->view = *view;
	f->view.error = f->error = mem_strdup(view->error);
	for (size_t i = 0; i < a->n_jobs; i++) {
		if (a->jobs[i]->file == f) {
			a->jobs[i]->check_dirty = true;
			files__note_seen(a->jobs[i]);
		}
	}
	for (size_t i = 0; i < a->n_datasets; i++) {
		if (a->datasets[i]->file == f) {
			a->datasets[i]->dirty = true;
			dataset_say(a->datasets[i]);
		}
	}
}

void files__fini(edge_agent *a)
{
	for (size_t i = 0; i < a->n_files; i++)
		file_free(a->files[i]);
	free(a->files);
}
