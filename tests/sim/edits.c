/* Changes of a job's spec while it runs: each edit changes one thing, or two. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

static void other_dataset(world *w, job_setup *j)
{
	int file = (int)(rnd(w) % w->n_files);

	/* A folder of the node is seen by nobody else. */
	if (w->files[file].node == j->dataset_node || disk_of(w, j->dataset_node, j->output_dir) == &w->shared)
		job_read_other(w, j, file);
}

static void other_output_dir(world *w, job_setup *j)
{
	size_t len = strlen(j->output_dir);

	if (len > 6 && strcmp(&j->output_dir[len - 6], "-other") == 0)
		j->output_dir[len - 6] = '\0';
	else
		strcpy(&j->output_dir[len], "-other");
	(void)w;
}

static void other_nodes(world *w, job_setup *j)
{
	if (disk_of(w, j->dataset_node, j->output_dir) != &w->shared)
		return;
	j->train_node = &w->devices[rnd(w) % w->n_devices];
	j->eval_node = &w->devices[rnd(w) % w->n_devices];
}

static void other_eval_model(world *w, job_setup *j)
{
	if (j->eval[0] != '\0')
		j->eval[0] = '\0';
	else
		snprintf(j->eval, sizeof(j->eval), "eval-%s", j->name);
	models_create(w, j);
}

static void other_deploy_trigger(world *w, job_setup *j)
{
	j->deploy_threshold = chance(w, 0.5) ? 0 : -1;
	j->rule = metric_rule_random(w);
	j->many_metrics = chance(w, 0.2);
	j->deploy_timer = chance(w, 0.1);
}

static void one_edit(world *w, job_setup *j)
{
	static const double probs[] = {1, 0.8, 0.5, 0.29};

	switch (rnd(w) % 12) {
	case 0:
	case 1:
		other_dataset(w, j);
		break;
	case 2:
		other_output_dir(w, j);
		break;
	case 3:
		other_nodes(w, j);
		break;
	case 4:
		other_eval_model(w, j);
		break;
	case 5:
	case 6:
		other_deploy_trigger(w, j);
		break;
	case 7:
		j->train_prob = probs[rnd(w) % 4];
		break;
	case 8:
		j->train_threshold = rnd_range(w, 1, 8);
		j->timer = chance(w, 0.1);
		break;
	case 9:
		j->hot = !j->hot;
		break;
	case 10:
		j->restart_never = chance(w, 0.5);
		j->pinned = chance(w, 0.5);
		j->check_s = rnd_range(w, 1, 20);
		break;
	default:
		j->broken = !j->broken;
		break;
	}
}

void job_edit_random(world *w, job_setup *j)
{
	one_edit(w, j);
	if (chance(w, 0.3))
		one_edit(w, j);
	job_edit(w, j);
}

void job_edit_plain(world *w, job_setup *j)
{
	if (!j->broken && !j->timer && !j->deploy_timer)
		return;
	j->broken = j->timer = j->deploy_timer = false;
	job_edit(w, j);
}
