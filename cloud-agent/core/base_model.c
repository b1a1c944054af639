/* What a round's training starts from (annotation ilmare/retrain-from).
 *
 * `better`, the default: the better of the two models that the last evaluation compared, by the deploy trigger's metric and the direction of
 * its operator. So small improvements add up until the trigger says yes, and a batch of wrong labels does not spoil what follows. Where that
 * cannot be judged, the newly trained one. `last`: the newest trained model, whatever it is worth. `deployed`: the one that serves. Before
 * there is any trained model: the initial Model.
 *
 * After a rollback training goes on from the model that was gone back to (from what its round left to be trained on), until there is something
 * newer to judge: for `better` an evaluation of a later round, for `last` a later training. What was found bad is not built upon meanwhile.
 */
#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"
#include "proto/metric.h"

/* -1 the new model is worse, 1 better or equal, 0 not known. */
static int judge(const job_view *v)
{
	metric_expr expr;
	double of_new, of_old;
	const trigger *t = &v->deploy;
	if (v->evaluated.n < 2 || !t->has_condition || metric_parse(t->metric, &expr, NULL) != 0)
		return 0;
	if (metric_of(&expr, v->evaluated.models[0].metrics, &of_new, NULL) != 0 ||
		metric_of(&expr, v->evaluated.models[1].metrics, &of_old, NULL) != 0)
		return 0;
	switch (t->op) {
	case OP_GT:
	case OP_GE:
		return of_new < of_old ? -1 : 1;
	case OP_LT:
	case OP_LE:
		return of_new > of_old ? -1 : 1;
	case OP_EQ:
	case OP_NE:
		break;
	}
	return 0;
}

static const model *trainable(const results *r, const model *initial)
{
	const model *m = r->there ? model_select(r->models, r->n, initial, USE_TRAIN) : NULL;
	return m != NULL ? m : initial;
}

static const model *of_deployed(const job_view *v, const model *initial)
{
	if (!v->m.deployed.back)
		return trainable(&v->trained_deployed, initial);
	const kept_version *kept = version_find(&v->m, v->m.deployed.round);
	if (kept == NULL || kept->base_url == NULL)
		return initial;
	model *m = arena_alloc(v->mem, sizeof *m);
	*m = (model){.format = kept->base_format, .url = kept->base_url};
	return m;
}

/* The model of a rollback serves, and this is not newer. */
static bool gone_back_behind(const job_view *v, const results *r)
{
	return v->m.has_deployed && v->m.deployed.back && (!r->there || r->round <= v->m.deployed.round);
}

const model *base_model(const job_view *v, const model *initial)
{
	if (!v->trained.there)
		return initial;
	switch (v->retrain) {
	case RETRAIN_LAST:
		return gone_back_behind(v, &v->trained) ? of_deployed(v, initial) : trainable(&v->trained, initial);
	case RETRAIN_DEPLOYED:
		return of_deployed(v, initial);
	case RETRAIN_BETTER:
		break;
	}
	if (gone_back_behind(v, &v->evaluated) || judge(v) < 0)
		return of_deployed(v, initial);
	return trainable(v->trained_evaluated.there ? &v->trained_evaluated : &v->trained, initial);
}
