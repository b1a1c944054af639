/* ilmare-cloud: options, loop, signals. What it does is in app.c. */
#include <signal.h>
#include <uv.h>

#include "cloud-agent/app.h"
#include "cloud-agent/options.h"
#include "common/daemon.h"
#include "common/log.h"
#include "common/version.h"

static void stop(void *ctx)
{
	app_stop(ctx);
}

int main(int argc, char **argv)
{
	cloud_options options = {0};
	error err = {0};
	app *agent = NULL;
	uv_loop_t loop;
	int status = 1;

	daemon_init();
	signal(SIGCHLD, SIG_IGN); /* nobody waits for the supervisors of the local cluster: see worker.h there */
	if (config_load(&cloud_options_spec, argc, argv, &options, &status) == CONFIG_EXIT)
		goto done;
	daemon_log("ilmare-cloud", options.log_level);

	uv_loop_init(&loop);
	status = app_start(&loop, &options, &agent, &err) == 0 ? 0 : 1;
	if (status == 0)
		log_info("main", "started", L_STR("name", options.name), L_STR("version", ILMARE_VERSION));
	else
		log_error("main", "cannot start", L_STR("error", err.text));
	daemon_run(&loop, stop, agent);
	app_free(agent);
	uv_loop_close(&loop);
	if (status == 0)
		log_info("main", "stopped", L_STR("name", options.name));
	log_flush();
done:
	config_free(&cloud_options_spec, &options);
	return status;
}
