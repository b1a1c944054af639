/* Reports: what a node says happened at a stage of a round.
 *
 * `stage` and `what` travel in the topic, where an ACL and a subscriber can see them; the position in the document says the same, so a
 * report that was published under a wrong topic is found out. Each kind has a part without which it says nothing, and is refused then:
 * ready of train and eval an input, ready of train the range of samples, completed of train and eval the models, failed a reason, written
 * the digest of what is in place.
 */
#include <stdio.h>

#include "proto/document_internal.h"

/* The phase that a report speaks of. */
static enum phase phase_of(enum report_what what)
{
	switch (what) {
	case REPORT_READY:
		return PHASE_READY;
	case REPORT_COMPLETED:
		return PHASE_COMPLETED;
	case REPORT_FAILED:
		return PHASE_FAILED;
	case REPORT_WRITTEN:
		break;
	}
	return PHASE_STARTING;
}

static void read_input(reading *r, const cJSON *root, report *rep)
{
	const cJSON *o = read__object(r, root, "report", "input", OPTIONAL);

	if (o == NULL)
		return;
	rep->has_input = true;
	rep->input.models = read__models(r, o, "report.input", "models", OPTIONAL, &rep->input.n_models);
	rep->input.data_url = read__word(r, o, "report.input", "dataURL", OPTIONAL, TEXT_MAX_URL);
	rep->input.data_index_url = read__word(r, o, "report.input", "dataIndexURL", OPTIONAL, TEXT_MAX_URL);
	rep->input.output_dir = read__word(r, o, "report.input", "outputDir", OPTIONAL, TEXT_MAX_URL);
}

static void read_output(reading *r, const cJSON *root, report *rep)
{
	const cJSON *o = read__object(r, root, "report", "output", OPTIONAL);

	if (o == NULL)
		return;
	rep->has_output = true;
	rep->output.models = read__models(r, o, "report.output", "models", OPTIONAL, &rep->output.n_models);
	rep->output.owner_info = read__object(r, o, "report.output", "ownerInfo", OPTIONAL);
}

static void read_range(reading *r, const cJSON *root, report *rep)
{
	const cJSON *o = read__object(r, root, "report", "range", OPTIONAL);
	sample_range *range = &rep->range;

	if (o == NULL)
		return;
	rep->has_range = true;
	read__int(r, o, "report.range", "from", NEEDED, 0, DOCUMENT_MAX_INT, &range->from);
	read__int(r, o, "report.range", "to", NEEDED, 0, DOCUMENT_MAX_INT, &range->to);
	(void)read__cursor(r, o, "report.range", "end", NEEDED, &range->end);
	if (r->code != 0)
		return;
	if (range->to < range->from)
		read__fail(r, "report.range", "to", "the range ends before it begins");
	else if (range->end.sample != range->to)
		read__fail(r, "report.range", "end.sample", "the cursor is not at the end of the range");
}

static void need(reading *r, bool there, const char *name, enum stage stage, enum report_what what)
{
	if (!there)
		read__fail(r, "report", name, "is missing; a report of %s '%s' needs it", stage_word(stage), report_what_word(what));
}

static void check_complete(reading *r, const report *rep, enum stage stage, enum report_what what)
{
	switch (what) {
	case REPORT_READY:
		need(r, stage == STAGE_DEPLOY || rep->has_input, "input", stage, what);
		need(r, stage != STAGE_TRAIN || rep->has_range, "range", stage, what);
		break;
	case REPORT_COMPLETED:
		need(r, stage == STAGE_DEPLOY || rep->output.n_models > 0, "output.models", stage, what);
		break;
	case REPORT_FAILED:
		need(r, rep->reason != NULL, "reason", stage, what);
		break;
	case REPORT_WRITTEN:
		need(r, rep->has_sha256, "sha256", stage, what);
		break;
	}
}

static void check_position(reading *r, const report *rep, enum stage stage, enum report_what what)
{
	char said[48];

	if (r->code != 0 || (rep->position.stage == stage && rep->position.phase == phase_of(what)))
		return;
	position_format(rep->position, said);
	read__fail(r, "report", "position", "%s is not what the topic says: %s/%s", said, stage_word(stage), report_what_word(what));
}

int report_decode(const char *data, size_t len, enum stage stage, enum report_what what, report **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "report", data, len, err);
	report *rep = arena_alloc(r.mem, sizeof(*rep));
	int code;

	rep->mem = r.mem;
	rep->what = what;
	rep->ts = read__ts(&r, root, "report", NEEDED);
	rep->job = read__job(&r, root, "report");
	rep->node = read__node(&r, root, "report");
	rep->position = read__position(&r, read__object(&r, root, "report", "position", NEEDED), "report.position", 1);
	check_position(&r, rep, stage, what);
	rep->store = read__word(&r, root, "report", "store", NEEDED, TEXT_MAX_WORD);
	read__int(&r, root, "report", "seq", NEEDED, 0, DOCUMENT_MAX_INT, &rep->seq);
	read_input(&r, root, rep);
	read_output(&r, root, rep);
	read_range(&r, root, rep);
	rep->reason = read__word(&r, root, "report", "reason", OPTIONAL, TEXT_MAX_REASON);
	rep->message = read__prose(&r, root, "report", "message", OPTIONAL, TEXT_MAX_MESSAGE);
	rep->has_sha256 = read__digest(&r, root, "report", "sha256", OPTIONAL, &rep->sha256);
	rep->versions = read__versions(&r, root, "report", "versions", &rep->n_versions);
	rep->has_versions = read__any(&r, root, "versions") != NULL;
	check_complete(&r, rep, stage, what);
	code = read__end(&r);
	*out = code == 0 ? rep : NULL;
	return code;
}

static void write_input(cJSON *root, const report *rep)
{
	cJSON *o = cJSON_CreateObject();

	write__models(o, "models", rep->input.models, rep->input.n_models);
	json_put_string(o, "dataURL", rep->input.data_url);
	json_put_string(o, "dataIndexURL", rep->input.data_index_url);
	json_put_string(o, "outputDir", rep->input.output_dir);
	json_put(root, "input", o);
}

static void write_output(cJSON *root, const report *rep)
{
	cJSON *o = cJSON_CreateObject();

	write__models(o, "models", rep->output.models, rep->output.n_models);
	write__copy(o, "ownerInfo", rep->output.owner_info);
	json_put(root, "output", o);
}

static void write_range(cJSON *root, const sample_range *range)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "from", range->from);
	json_put_int(o, "to", range->to);
	write__cursor(o, "end", &range->end);
	json_put(root, "range", o);
}

char *report_encode(const report *rep)
{
	cJSON *root = write__begin(rep->ts);
	cJSON *position_object = cJSON_CreateObject();

	write__job(root, &rep->job);
	json_put_string(root, "node", rep->node);
	write__position(position_object, rep->position);
	json_put(root, "position", position_object);
	json_put_string(root, "store", rep->store);
	json_put_int(root, "seq", rep->seq);
	if (rep->has_input)
		write_input(root, rep);
	if (rep->has_output)
		write_output(root, rep);
	if (rep->has_range)
		write_range(root, &rep->range);
	write__prose(root, "reason", rep->reason != NULL && *rep->reason != '\0' ? rep->reason : NULL, TEXT_MAX_REASON);
	write__prose(root, "message", rep->message, TEXT_MAX_MESSAGE);
	if (rep->has_sha256)
		write__digest(root, "sha256", &rep->sha256);
	if (rep->has_versions)
		write__versions(root, "versions", rep->versions, rep->n_versions);
	return write__end(root);
}

void report_free(report *rep)
{
	if (rep != NULL)
		arena_free(rep->mem);
}
