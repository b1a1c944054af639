/* The desired document: all that a node needs for one job. */
#include <string.h>

#include "proto/document_internal.h"

static const struct {
	enum role role;
	const char *word;
} role_words[] = {{ROLE_DATASET, "dataset"}, {ROLE_TRAIN, "train"}, {ROLE_EVAL, "eval"}, {ROLE_DEPLOY, "deploy"}};

enum { N_ROLES = sizeof(role_words) / sizeof(role_words[0]) };

/* ---- reading ---- */

static unsigned role_parse(const char *word)
{
	for (size_t i = 0; i < N_ROLES; i++) {
		if (strcmp(word, role_words[i].word) == 0)
			return role_words[i].role;
	}
	return 0;
}

static unsigned read_roles(reading *r, const cJSON *root)
{
	unsigned roles = 0;
	size_t n;
	const char **words = read__strings(r, root, "desired", "roles", NEEDED, N_ROLES, NULL, &n);

	for (size_t i = 0; i < n; i++) {
		unsigned role = role_parse(words[i]);

		if (role == 0)
			read__fail(r, "desired", "roles", "'%s' is not one of dataset, train, eval, deploy", words[i]);
		else if ((roles & role) != 0)
			read__fail(r, "desired", "roles", "'%s' is there twice", words[i]);
		roles |= role;
	}
	return roles;
}

static void read_trained(reading *r, const cJSON *root, desired *d)
{
	const cJSON *o = read__object(r, root, "desired", "trained", OPTIONAL);

	if (o == NULL)
		return;
	d->has_trained = true;
	read__int(r, o, "desired.trained", "round", NEEDED, 1, DOCUMENT_MAX_INT, &d->trained_round);
	d->trained_models = read__models(r, o, "desired.trained", "models", NEEDED, &d->n_trained_models);
	d->has_cursor = read__cursor(r, o, "desired.trained", "cursor", OPTIONAL, &d->cursor);
}

static void read_deployed(reading *r, const cJSON *root, desired *d)
{
	const cJSON *o = read__object(r, root, "desired", "deployed", OPTIONAL);

	if (o == NULL)
		return;
	d->has_deployed = true;
	read__int(r, o, "desired.deployed", "round", NEEDED, 0, DOCUMENT_MAX_INT, &d->deployed_round);
	d->has_deployed_sha256 = read__digest(r, o, "desired.deployed", "sha256", OPTIONAL, &d->deployed_sha256);
}

static void read_rollback(reading *r, const cJSON *root, desired *d)
{
	const cJSON *o = read__object(r, root, "desired", "rollback", OPTIONAL);

	if (o == NULL)
		return;
	d->has_rollback = true;
	read__int(r, o, "desired.rollback", "round", NEEDED, 0, DOCUMENT_MAX_INT, &d->rollback_round);
	(void)read__digest(r, o, "desired.rollback", "sha256", NEEDED, &d->rollback_sha256);
}

static void read_dataset(reading *r, const cJSON *root, desired *d)
{
	const cJSON *o = read__object(r, root, "desired", "dataset", OPTIONAL);
	const char *first;

	if (o == NULL)
		return;
	d->has_dataset = true;
	read__dataset(r, o, "desired.dataset", &d->dataset);
	read__double(r, o, "desired.dataset", "trainProb", NEEDED, &d->train_prob);
	if (r->code == 0 && !(d->train_prob >= 0 && d->train_prob <= 1))
		read__fail(r, "desired.dataset", "trainProb", "%g is not between 0 and 1", d->train_prob);
	first = read__text(r, o, "desired.dataset", "firstSample", OPTIONAL, TEXT_MAX_WORD);
	if (first != NULL && strcmp(first, "end") != 0)
		read__fail(r, "desired.dataset", "firstSample", "'%s' is not known; the only value is end", first);
	d->first_sample_end = first != NULL;
}

static void read_copies(reading *r, const cJSON *models, desired *d)
{
	const char *where = "desired.models";
	const cJSON *array = read__array(r, models, where, "deploy", OPTIONAL, DOCUMENT_MAX_COPIES, &d->n_copies);
	const cJSON *entry;
	size_t i = 0;

	if (array == NULL || d->n_copies == 0)
		return;
	d->copies = arena_alloc(r->mem, d->n_copies * sizeof(*d->copies));
	cJSON_ArrayForEach(entry, array) {
		const char *path = path__entry(r, where, "deploy", i);
		const cJSON *from = read__object(r, entry, path, "from", NEEDED);
		const cJSON *to = read__object(r, entry, path, "to", NEEDED);

		read__model(r, from, path__member(r, path, "from"), &d->copies[i].from);
		read__model(r, to, path__member(r, path, "to"), &d->copies[i].to);
		i++;
	}
}

static void read_models(reading *r, const cJSON *root, desired *d)
{
	const cJSON *o = read__object(r, root, "desired", "models", OPTIONAL);
	const cJSON *base = read__object(r, o, "desired.models", "base", OPTIONAL);

	d->eval_results = read__models(r, root, "desired", "evalResults", OPTIONAL, &d->n_eval_results);
	if (base != NULL) {
		d->has_base = true;
		read__model(r, base, "desired.models.base", &d->base);
	}
	d->eval_models = read__models(r, o, "desired.models", "eval", OPTIONAL, &d->n_eval_models);
	read_copies(r, o, d);
}

static void read_settings(reading *r, const cJSON *root, desired *d)
{
	const cJSON *triggers = read__object(r, root, "desired", "triggers", NEEDED);
	const cJSON *hot;

	read__trigger(r, triggers, "desired.triggers", "train", &d->train);
	read__trigger(r, triggers, "desired.triggers", "deploy", &d->deploy);
	d->output_dir = read__word(r, root, "desired", "outputDir", NEEDED, TEXT_MAX_URL);
	hot = read__object(r, root, "desired", "hotUpdate", OPTIONAL);
	if (hot != NULL) {
		d->hot_update = true;
		read__int(r, hot, "desired.hotUpdate", "pollPeriodSeconds", NEEDED, 1, TRIGGER_MAX_PERIOD_S, &d->poll_period_s);
	}
	d->credentials = read__credentials(r, root, "desired", &d->n_credentials);
}

int desired_decode(const char *data, size_t len, desired **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "desired", data, len, err);
	desired *d = arena_alloc(r.mem, sizeof(*d));
	int code;

	d->mem = r.mem;
	d->ts = read__ts(&r, root, "desired", NEEDED);
	d->stamp = read__stamp(&r, root, "desired");
	d->node = read__node(&r, root, "desired");
	d->job = read__job(&r, root, "desired");
	d->roles = read_roles(&r, root);
	d->position = read__position(&r, read__object(&r, root, "desired", "position", NEEDED), "desired.position", 1);
	read__bool(&r, root, "desired", "workerEnded", NEEDED, &d->worker_ended);
	read_trained(&r, root, d);
	read_deployed(&r, root, d);
	read_rollback(&r, root, d);
	read_dataset(&r, root, d);
	read_models(&r, root, d);
	read_settings(&r, root, d);
	code = read__end(&r);
	*out = code == 0 ? d : NULL;
	return code;
}

void desired_free(desired *d)
{
	if (d != NULL)
		arena_free(d->mem);
}

/* ---- writing ---- */

static void write_roles(cJSON *root, unsigned roles)
{
	const char *words[N_ROLES];
	size_t n = 0;

	for (size_t i = 0; i < N_ROLES; i++) {
		if ((roles & role_words[i].role) != 0)
			words[n++] = role_words[i].word;
	}
	write__strings(root, "roles", words, n);
}

static void write_trained(cJSON *root, const desired *d)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "round", d->trained_round);
	write__models(o, "models", d->trained_models, d->n_trained_models);
	if (d->has_cursor)
		write__cursor(o, "cursor", &d->cursor);
	json_put(root, "trained", o);
}

static void write_deployed(cJSON *root, const desired *d)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "round", d->deployed_round);
	if (d->has_deployed_sha256)
		write__digest(o, "sha256", &d->deployed_sha256);
	json_put(root, "deployed", o);
}

static void write_rollback(cJSON *root, const desired *d)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "round", d->rollback_round);
	write__digest(o, "sha256", &d->rollback_sha256);
	json_put(root, "rollback", o);
}

static void write_dataset(cJSON *root, const desired *d)
{
	cJSON *o = write__dataset_id(&d->dataset);

	json_put_string(o, "url", d->dataset.url);
	json_put_string(o, "format", dataset_format_name(d->dataset.format));
	json_put_double(o, "trainProb", d->train_prob);
	json_put_string(o, "firstSample", d->first_sample_end ? "end" : NULL);
	json_put(root, "dataset", o);
}

static void write_models(cJSON *root, const desired *d)
{
	cJSON *o = cJSON_CreateObject();

	if (d->has_base)
		json_put(o, "base", model_encode(&d->base));
	if (d->n_eval_models > 0)
		write__models(o, "eval", d->eval_models, d->n_eval_models);
	if (d->n_copies > 0) {
		cJSON *array = cJSON_CreateArray();

		for (size_t i = 0; i < d->n_copies; i++) {
			cJSON *copy = cJSON_CreateObject();

			json_put(copy, "from", model_encode(&d->copies[i].from));
			json_put(copy, "to", model_encode(&d->copies[i].to));
			cJSON_AddItemToArray(array, copy);
		}
		json_put(o, "deploy", array);
	}
	json_put(root, "models", o);
}

static void write_settings(cJSON *root, const desired *d)
{
	cJSON *triggers = cJSON_CreateObject();

	json_put(triggers, "train", trigger_encode(&d->train));
	json_put(triggers, "deploy", trigger_encode(&d->deploy));
	json_put(root, "triggers", triggers);
	json_put_string(root, "outputDir", d->output_dir);
	if (d->hot_update) {
		cJSON *hot = cJSON_CreateObject();

		json_put_int(hot, "pollPeriodSeconds", d->poll_period_s);
		json_put(root, "hotUpdate", hot);
	}
	write__credentials(root, d->credentials, d->n_credentials);
}

char *desired_encode(const desired *d)
{
	cJSON *root = write__begin(d->ts);
	cJSON *position_object = cJSON_CreateObject();

	write__stamp(root, d->stamp);
	json_put_string(root, "node", d->node);
	write__job(root, &d->job);
	write_roles(root, d->roles);
	write__position(position_object, d->position);
	json_put(root, "position", position_object);
	json_put_bool(root, "workerEnded", d->worker_ended);
	if (d->has_trained)
		write_trained(root, d);
	if (d->has_deployed)
		write_deployed(root, d);
	if (d->has_rollback)
		write_rollback(root, d);
	if (d->n_eval_results > 0)
		write__models(root, "evalResults", d->eval_results, d->n_eval_results);
	if (d->has_dataset)
		write_dataset(root, d);
	write_models(root, d);
	write_settings(root, d);
	return write__end(root);
}
