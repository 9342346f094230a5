/* SPDX-License-Identifier: Apache-2.0 */
/* Logging to standard error: one line per call, with its level and the name of its source. */
#ifndef DOCA_LOG_H_
#define DOCA_LOG_H_

#include <stdint.h>
#include <stdio.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum doca_log_level {
    DOCA_LOG_LEVEL_DISABLE = 10,
    DOCA_LOG_LEVEL_CRIT = 20,
    DOCA_LOG_LEVEL_ERROR = 30,
    DOCA_LOG_LEVEL_WARNING = 40,
    DOCA_LOG_LEVEL_INFO = 50,
    DOCA_LOG_LEVEL_DEBUG = 60,
    DOCA_LOG_LEVEL_TRACE = 70,
};

struct doca_log_backend;

doca_error_t doca_log_backend_create_standard(void);
doca_error_t doca_log_backend_create_with_file_sdk(FILE *file, struct doca_log_backend **backend);
doca_error_t doca_log_backend_set_sdk_level(struct doca_log_backend *backend, uint32_t level);
doca_error_t doca_log_level_set_global_lower_limit(uint32_t level);
doca_error_t doca_log_level_set_global_sdk_limit(uint32_t level);

doca_error_t doca_log_register_source(const char *name, int *source);
doca_error_t doca_log_unregister_source(int source);
void doca_log_write(uint32_t level, int source, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The name may hold characters that no identifier can: it is only ever a string. */
#define DOCA_LOG_REGISTER(name)                                                \
    static int doca_log_source_;                                               \
    static void __attribute__((constructor(101))) doca_log_source_add_(void)   \
    {                                                                          \
        (void)doca_log_register_source(#name, &doca_log_source_);              \
    }                                                                          \
    static void __attribute__((destructor(101))) doca_log_source_remove_(void) \
    {                                                                          \
        (void)doca_log_unregister_source(doca_log_source_);                    \
    }                                                                          \
    extern int doca_log_register_needs_a_semicolon_

#define DOCA_LOG(level, ...) doca_log_write((level), doca_log_source_, __FILE__, __LINE__, __VA_ARGS__)
#define DOCA_LOG_CRIT(...) DOCA_LOG(DOCA_LOG_LEVEL_CRIT, __VA_ARGS__)
#define DOCA_LOG_ERR(...) DOCA_LOG(DOCA_LOG_LEVEL_ERROR, __VA_ARGS__)
#define DOCA_LOG_WARN(...) DOCA_LOG(DOCA_LOG_LEVEL_WARNING, __VA_ARGS__)
#define DOCA_LOG_INFO(...) DOCA_LOG(DOCA_LOG_LEVEL_INFO, __VA_ARGS__)
#define DOCA_LOG_DBG(...) DOCA_LOG(DOCA_LOG_LEVEL_DEBUG, __VA_ARGS__)
#define DOCA_LOG_TRC(...) DOCA_LOG(DOCA_LOG_LEVEL_TRACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
