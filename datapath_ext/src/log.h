/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: one JSON object per line on standard error, for a journal to keep and a program to read. */
#ifndef LOG_H_
#define LOG_H_

#include <jansson.h>
#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_NOTHING };

/* Lines below this level are not written. */
void log_set_level(enum log_level level);
bool log_level_from_name(const char *name, enum log_level *level);

/* An event and its fields, as json_pack() takes them: log_event(LOG_INFO, "loaded", "{s:i}", "vips", 3). */
void log_event(enum log_level level, const char *event, const char *format, ...);

#endif
