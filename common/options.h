/* Options that both agents have besides those of the link (common/mqtt/options.h): rows for their tables, so that names, types and limits are
 * the same. Elements of a config_row array; `at` is an offset in the target.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/config.h"

/* A `char *`, for daemon_log. */
#define LOG_OPTION_ROW(at)                                                                                                                 \
	{                                                                                                                                      \
		.key = "logLevel", .type = CONFIG_ENUM, .offset = (at), .fallback = "info", .choices = "error|warn|info|debug",                    \
		.help = "How much to log."                                                                                                         \
	}

/* What a broken rule of both says; each takes the text that was given. */
#define LISTEN_RULE "\"%.100s\" is not a numeric address, such as 127.0.0.1 or ::1"
#define TOPIC_ROOT_RULE "\"%.100s\" cannot begin a topic"

typedef struct observe_options {
	char *host;
	int64_t port; /* 0: any; -1: see the row's help */
} observe_options;

/* `port`: the default; `none`: what -1 means. Both are string literals. */
#define OBSERVE_OPTION_ROWS(at, default_port, none)                                                                                        \
	{.key = "observe.host",                                                                                                                \
		.type = CONFIG_STRING,                                                                                                             \
		.offset = (at) + offsetof(observe_options, host),                                                                                  \
		.fallback = "127.0.0.1",                                                                                                           \
		.help = "Address of /healthz, /readyz and /metrics, where they have a port of their own."},                                        \
	{                                                                                                                                      \
		.key = "observe.port", .type = CONFIG_INT, .offset = (at) + offsetof(observe_options, port), .fallback = (default_port),           \
		.min = -1, .max = 65535, .help = "Their port. 0: any free one, said in the log. -1: " none "."                                     \
	}

#endif
