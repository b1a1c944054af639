/* A mosquitto for tests: see broker.h. */
#include "tests/integration/broker.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"
#include "tests/integration/child.h"

/* Somebody else may take a free port before mosquitto does. */
enum { PORTS_TRIED = 5 };

struct broker {
	char *template, *dir, *config, *log, *url;
	uint16_t port;
	pid_t pid;
};

broker *broker_new(const char *config)
{
	broker *b = mem_alloc(sizeof *b);

	b->template = mem_strdup(config);
	b->dir = folder_new();
	b->log = mem_printf("%s/log", b->dir);
	return b;
}

void broker_file(broker *b, const char *name, const char *text)
{
	free(folder_file(b->dir, name, text));
}

static void expand(buf *out, const char *text, const char *name, const char *value)
{
	const char *hit;

	while ((hit = strstr(text, name)) != NULL) {
		buf_add(out, text, (size_t)(hit - text));
		buf_puts(out, value);
		text = hit + strlen(name);
	}
	buf_puts(out, text);
}

static void write_config(broker *b)
{
	buf with_port = {0}, whole = {0};
	char port[8];

	snprintf(port, sizeof port, "%u", b->port);
	expand(&with_port, b->template, "{port}", port);
	expand(&whole, buf_text(&with_port), "{dir}", b->dir);
	if (geteuid() == 0)
		buf_puts(&whole, "user root\n"); /* else it gives up root, and with it its own folder */
	free(b->config);
	b->config = folder_file(b->dir, "mosquitto.conf", buf_text(&whole));
	buf_fini(&with_port);
	buf_fini(&whole);
}

static void print_log(const broker *b)
{
	char line[512];
	FILE *f = fopen(b->log, "re");

	while (f && fgets(line, sizeof line, f))
		fprintf(stderr, "mosquitto: %s", line);
	if (f)
		fclose(f);
}

void broker_start(broker *b)
{
	bool keep_port = b->port != 0;

	assert_int_equal(b->pid, 0);
	for (int i = 0; i < PORTS_TRIED; i++) {
		/* Debian has it in /usr/sbin, which is not in everybody's PATH. */
		const char *program = access("/usr/sbin/mosquitto", X_OK) == 0 ? "/usr/sbin/mosquitto" : "mosquitto";

		if (!keep_port)
			b->port = port_free();
		write_config(b);
		b->pid = child_start((const char *const[]){program, "-c", b->config, NULL}, b->log);
		if (port_wait(b->port, b->pid) == 0) {
			free(b->url);
			b->url = mem_printf("tcp://127.0.0.1:%u", b->port);
			return;
		}
		child_end(b->pid, SIGKILL);
		b->pid = 0;
	}
	print_log(b);
	fail_msg("mosquitto does not start");
}

static void end(broker *b, int signal)
{
	if (b->pid > 0)
		child_end(b->pid, signal);
	b->pid = 0;
}

void broker_stop(broker *b)
{
	end(b, SIGTERM);
}

void broker_kill(broker *b)
{
	end(b, SIGKILL);
}

void broker_free(broker *b)
{
	if (!b)
		return;
	broker_stop(b);
	folder_remove(b->dir);
	free(b->template);
	free(b->dir);
	free(b->config);
	free(b->log);
	free(b->url);
	free(b);
}

uint16_t broker_port(const broker *b)
{
	return b->port;
}

const char *broker_url(const broker *b)
{
	return b->url;
}

const char *broker_dir(const broker *b)
{
	return b->dir;
}

pid_t broker_pid(const broker *b)
{
	return b->pid;
}
