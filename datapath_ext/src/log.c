/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {"debug", "info", "warning", "error"};
static enum log_level least = LOG_INFO;

void log_set_level(enum log_level level)
{
    least = level;
}

bool log_level_from_name(const char *name, enum log_level *level)
{
    for (enum log_level i = LOG_DEBUG; i <= LOG_ERROR; i++)
        if (strcmp(name, names[i]) == 0) {
            *level = i;
            return true;
        }
    return false;
}

static void put_time(char *text, size_t size)
{
    struct timespec now = {0};
    struct tm parts = {0};
    size_t used;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    used = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + used, size - used, ".%03ldZ", now.tv_nsec / 1000000);
}

/* In one piece: the library's threads write to standard error too. */
static void put_line(const json_t *line, enum log_level level, const char *event)
{
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    size_t length = text != NULL ? strlen(text) : 0;

    if (text != NULL) {
        text[length] = '\n'; /* in place of its end, which nobody needs any more */
        (void)fwrite(text, 1, length + 1, stderr);
    } else { /* without memory, at least this */
        (void)fprintf(stderr, "{\"level\":\"%s\",\"event\":\"%s\"}\n", names[level], event);
    }
    free(text);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    json_t *line, *fields;
    char stamp[40];
    va_list arguments;

    if (level < least)
        return;
    put_time(stamp, sizeof(stamp));
    line = json_pack("{s:s, s:s, s:s}", "time", stamp, "level", names[level], "event", event);
    va_start(arguments, format);
    fields = json_vpack_ex(NULL, 0, format, arguments);
    va_end(arguments);
    if (line != NULL && fields != NULL)
        (void)json_object_update(line, fields);
    put_line(line, level, event);
    json_decref(fields);
    json_decref(line);
}
