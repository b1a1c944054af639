/* ilmare-edge: options, loop, signals. What it does is in app.c. */
#include <stdlib.h>
#include <uv.h>

#include "common/daemon.h"
#include "common/log.h"
#include "edge-agent/app.h"
#include "edge-agent/options.h"

static void ready(void *ctx)
{
	app_ready(ctx);
}

static void stop(void *ctx)
{
	app_stop(ctx);
}

int main(int argc, char **argv)
{
	edge_options options = {0};
	error err = {0};
	app *agent = NULL;
	uv_loop_t loop;
	int status = 1;

	daemon_init();
	if (config_load(&edge_options_spec, argc, argv, &options, &status) == CONFIG_EXIT)
		goto done;
	daemon_log("ilmare-edge", options.log_level);
	if (options.time_zone)
		setenv("TZ", options.time_zone, 1);

	uv_loop_init(&loop);
	status = app_start(&loop, &options, &agent, &err) == 0 ? 0 : 1;
	if (status != 0)
		log_error("main", "cannot start", L_STR("error", err.text));
	daemon_run(&loop, ready, stop, agent);
	app_free(agent);
	uv_loop_close(&loop);
	if (status == 0)
		log_info("main", "stopped", L_STR("node", options.node));
	log_flush();
done:
	config_free(&edge_options_spec, &options);
	return status;
}
