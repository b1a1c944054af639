/* ilmare-cloud: options, loop, signals. What it does is in app.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "cloud-agent/app.h"
#include "cloud-agent/cluster/kube/apply.h"
#include "cloud-agent/options.h"
#include "common/daemon.h"
#include "common/log.h"

static void ready(void *ctx)
{
	app_ready(ctx);
}

static void stop(void *ctx)
{
	app_stop(ctx);
}

/* --apply FILE...: see options.c. */
static int apply(int argc, char **argv)
{
	error err = {0};
	int code = apply_definitions(getenv("KUBECONFIG"), (const char *const *)argv, (size_t)argc, &err);

	if (code != 0)
		fprintf(stderr, "ilmare-cloud: --apply: %s\n", err.text);
	return code == 0 ? 0 : code == ERROR_INVALID ? 2 : 1;
}

int main(int argc, char **argv)
{
	cloud_options options = {0};
	error err = {0};
	app *agent = NULL;
	uv_loop_t loop;
	int status = 1;

	daemon_init();
	if (argc > 1 && strcmp(argv[1], "--apply") == 0)
		return apply(argc - 2, argv + 2);
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--apply") == 0) {
			fprintf(stderr,
				"ilmare-cloud: --apply stands first, and files alone behind it; the cluster is that of the variable KUBECONFIG\n");
			return 2;
		}
	}
	signal(SIGCHLD, SIG_IGN); /* nobody waits for the supervisors of the local cluster: see worker.h there */
	if (config_load(&cloud_options_spec, argc, argv, &options, &status) == CONFIG_EXIT)
		goto done;
	daemon_log("ilmare-cloud", options.log_level);

	uv_loop_init(&loop);
	status = app_start(&loop, &options, &agent, &err) == 0 ? 0 : 1;
	if (status != 0)
		log_error("main", "cannot start", L_STR("error", err.text));
	daemon_run(&loop, ready, stop, agent);
	app_free(agent);
	uv_loop_close(&loop);
	if (status == 0)
		log_info("main", "stopped", L_STR("name", options.name));
	log_flush();
done:
	config_free(&cloud_options_spec, &options);
	return status;
}
