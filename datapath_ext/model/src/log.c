/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <doca_log.h>

enum { SOURCES_MAX = 256 };

struct doca_log_backend {
    FILE *file;
};

/* Sources register from constructors, backends are few: fixed tables do. */
static struct doca_log_backend program_backend, sdk_backend;
static const char *sources[SOURCES_MAX];
static int source_count;
static uint32_t program_level = DOCA_LOG_LEVEL_INFO, sdk_level = DOCA_LOG_LEVEL_WARNING;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *level_name(uint32_t level)
{
    if (level <= DOCA_LOG_LEVEL_CRIT)
        return "CRT";
    if (level <= DOCA_LOG_LEVEL_ERROR)
        return "ERR";
    if (level <= DOCA_LOG_LEVEL_WARNING)
        return "WRN";
    if (level <= DOCA_LOG_LEVEL_INFO)
        return "INF";
    return level <= DOCA_LOG_LEVEL_DEBUG ? "DBG" : "TRC";
}

doca_error_t doca_log_backend_create_standard(void)
{
    program_backend.file = stderr;
    return DOCA_SUCCESS;
}

doca_error_t doca_log_backend_create_with_file_sdk(FILE *file, struct doca_log_backend **backend)
{
    if (file == NULL || backend == NULL)
        return DOCA_ERROR_INVALID_VALUE;
    sdk_backend.file = file;
    *backend = &sdk_backend;
    return DOCA_SUCCESS;
}

doca_error_t doca_log_backend_set_sdk_level(struct doca_log_backend *backend, uint32_t level)
{
    if (backend == NULL)
        return DOCA_ERROR_INVALID_VALUE;
    return doca_log_level_set_global_sdk_limit(level);
}

doca_error_t doca_log_level_set_global_lower_limit(uint32_t level)
{
    if (level > DOCA_LOG_LEVEL_TRACE)
        return DOCA_ERROR_INVALID_VALUE;
    program_level = level;
    return DOCA_SUCCESS;
}

doca_error_t doca_log_level_set_global_sdk_limit(uint32_t level)
{
    if (level > DOCA_LOG_LEVEL_TRACE)
        return DOCA_ERROR_INVALID_VALUE;
    sdk_level = level;
    return DOCA_SUCCESS;
}

doca_error_t doca_log_register_source(const char *name, int *source)
{
    if (name == NULL || source == NULL)
        return DOCA_ERROR_INVALID_VALUE;
    if (source_count == SOURCES_MAX)
        return DOCA_ERROR_NO_MEMORY;
    sources[source_count] = name;
    *source = source_count++;
    return DOCA_SUCCESS;
}

doca_error_t doca_log_unregister_source(int source)
{
    if (source < 0 || source >= source_count)
        return DOCA_ERROR_INVALID_VALUE;
    sources[source] = "?"; /* the name was the program's */
    return DOCA_SUCCESS;
}

void doca_log_write(uint32_t level, int source, const char *file, int line, const char *format, ...)
{
    va_list arguments;

    (void)file;
    (void)line;
    if (program_backend.file == NULL || level > program_level)
        return;
    if (pthread_mutex_lock(&lock) != 0)
        return;
    (void)fprintf(program_backend.file, "[%s][%s] ", level_name(level),
                  source >= 0 && source < source_count ? sources[source] : "?");
    va_start(arguments, format);
    (void)vfprintf(program_backend.file, format, arguments);
    va_end(arguments);
    (void)fputc('\n', program_backend.file);
    (void)fflush(program_backend.file);
    (void)pthread_mutex_unlock(&lock);
}

void log_sdk(uint32_t level, const char *text)
{
    if (sdk_backend.file == NULL || level > sdk_level)
        return;
    if (pthread_mutex_lock(&lock) != 0)
        return;
    (void)fprintf(sdk_backend.file, "[%s][DOCA_FLOW_MODEL] %s\n", level_name(level), text);
    (void)fflush(sdk_backend.file);
    (void)pthread_mutex_unlock(&lock);
}
