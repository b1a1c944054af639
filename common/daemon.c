/* The process around an agent: set up once, before any thread, and run until a signal says stop. A second signal changes nothing: stopping
 * has a limit, and all that matters is durable at any moment.
 */
#include "common/daemon.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/mem.h"

enum { STOP_MS = 4500 };

typedef struct stopper {
	void (*stop)(void *ctx);
	void *ctx;
	uv_signal_t signals[2];
	uv_timer_t limit;
	int stopped;
} stopper;

/* Counts of log lines that were held back are said when they are due, without a tick while there are none. */
typedef struct teller {
	uv_prepare_t before; /* the loop sleeps */
	uv_timer_t due;
} teller;

void daemon_init(void)
{
	/* On a device the memory of idle arenas counts more than contention among threads that mostly sleep. */
	mallopt(M_ARENA_MAX, 1);
	/* Fixed thresholds: by default the first large buffer that is freed raises them, and what follows is never given back. */
	mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	mallopt(M_TRIM_THRESHOLD, 512 * 1024);
	mem_init();
	/* At exit OpenSSL would take itself down, while a thread of the MQTT library may still be in it, or on its way out. */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	signal(SIGPIPE, SIG_IGN);
	setenv("UV_THREADPOOL_SIZE", "2", 0);
}

void daemon_log(const char *program, const char *level)
{
	enum log_level parsed = LOG_INFO;

	log_level_parse(level, &parsed);
	log_init(program, parsed);
}

static void on_limit(uv_timer_t *timer)
{
	(void)timer;
	log_warn("main", "stopping took too long; ended as it is");
	log_flush();
	_exit(0);
}

static void on_signal(uv_signal_t *handle, int number)
{
	stopper *s = handle->data;

	if (s->stopped)
		return;
	s->stopped = 1;
	log_info("main", "stopping", L_INT("signal", number));
	uv_timer_start(&s->limit, on_limit, STOP_MS, 0);
	s->stop(s->ctx);
}

static void on_due(uv_timer_t *timer)
{
	(void)timer;
	log_say_held();
}

static void on_before(uv_prepare_t *before)
{
	teller *t = before->data;
	int wait = log_wait_ms();

	if (wait >= 0 && !uv_is_active((uv_handle_t *)&t->due))
		uv_timer_start(&t->due, on_due, (uint64_t)wait, 0);
}

static void teller_start(teller *t, uv_loop_t *loop)
{
	uv_timer_init(loop, &t->due);
	uv_unref((uv_handle_t *)&t->due);
	uv_prepare_init(loop, &t->before);
	t->before.data = t;
	uv_prepare_start(&t->before, on_before);
	uv_unref((uv_handle_t *)&t->before);
}

static void teller_stop(teller *t)
{
	uv_close((uv_handle_t *)&t->before, NULL);
	uv_close((uv_handle_t *)&t->due, NULL);
}

void daemon_run(uv_loop_t *loop, void (*ready)(void *ctx), void (*stop)(void *ctx), void *ctx)
{
	static const int numbers[2] = {SIGTERM, SIGINT};
	stopper s = {.stop = stop, .ctx = ctx};
	teller t;

	for (int i = 0; i < 2; i++) {
		uv_signal_init(loop, &s.signals[i]);
		s.signals[i].data = &s;
		uv_signal_start(&s.signals[i], on_signal, numbers[i]);
		uv_unref((uv_handle_t *)&s.signals[i]);
	}
	teller_start(&t, loop);
	uv_timer_init(loop, &s.limit);
	uv_unref((uv_handle_t *)&s.limit);
	ready(ctx);
	uv_run(loop, UV_RUN_DEFAULT);
	teller_stop(&t);
	uv_close((uv_handle_t *)&s.limit, NULL);
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&s.signals[i], NULL);
	uv_run(loop, UV_RUN_DEFAULT);
}
