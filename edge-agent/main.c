/* ilmare-edge: options, loop, signals. What it does is in app.c. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/version.h"
#include "edge-agent/app.h"
#include "edge-agent/options.h"

static void on_signal(uv_signal_t *handle, int number)
{
	log_info("edge", "stopping", L_INT("signal", number));
	app_stop(handle->data);
	uv_signal_stop(handle);
}

int main(int argc, char **argv)
{
	edge_options options = {0};
	error err = {0};
	app *agent = NULL;
	uv_loop_t loop;
	uv_signal_t signals[2];
	int status = 1;

	/* One heap for all threads: on a device the memory of idle arenas counts more than contention among threads that mostly sleep. */
	mallopt(M_ARENA_MAX, 1);
	mem_init();
	if (config_load(&edge_options_spec, "/etc/ilmare/edge.yaml", argc, argv, &options, &status) == CONFIG_EXIT)
		goto done;
	enum log_level level = LOG_INFO;
	log_level_parse(options.log_level, &level);
	log_init("ilmare-edge", level);
	signal(SIGPIPE, SIG_IGN);
	setenv("UV_THREADPOOL_SIZE", "2", 0);
	if (options.time_zone)
		setenv("TZ", options.time_zone, 1);

	uv_loop_init(&loop);
	if (app_start(&loop, &options, &agent, &err) == 0) {
		static const int numbers[2] = {SIGTERM, SIGINT};

		for (int i = 0; i < 2; i++) {
			uv_signal_init(&loop, &signals[i]);
			signals[i].data = agent;
			uv_signal_start(&signals[i], on_signal, numbers[i]);
			uv_unref((uv_handle_t *)&signals[i]);
		}
		log_info("edge", "started", L_STR("node", options.node), L_STR("version", ILMARE_VERSION));
		uv_run(&loop, UV_RUN_DEFAULT);
		for (int i = 0; i < 2; i++)
			uv_close((uv_handle_t *)&signals[i], NULL);
		uv_run(&loop, UV_RUN_DEFAULT);
		log_info("edge", "stopped", L_STR("node", options.node));
		status = 0;
	} else {
		log_error("edge", "cannot start", L_STR("error", err.text));
		status = 1;
		uv_run(&loop, UV_RUN_DEFAULT);
	}
	app_free(agent);
	uv_loop_close(&loop);
done:
	config_free(&edge_options_spec, &options);
	return status;
}
