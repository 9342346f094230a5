/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <doca_log.h>

#include "faults.h"
#include "log.h"

struct library model;

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local char reason[512];
static bool strict;
static uint64_t random_state;
static uint64_t clock_ns = UINT64_MAX;

static void start(void)
{
    const char *value = getenv("DOCA_FLOW_MODEL_STRICT");
    pthread_mutexattr_t attributes;

    strict = value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
    random_state = 0x9e3779b97f4a7c15ULL;
    if (pthread_mutexattr_init(&attributes) != 0 ||
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) != 0 ||
        pthread_mutex_init(&lock, &attributes) != 0)
        abort(); /* nothing can be reported before there is a lock */
    (void)pthread_mutexattr_destroy(&attributes);
}

void model_lock(void)
{
    (void)pthread_once(&once, start);
    if (pthread_mutex_lock(&lock) != 0)
        abort();
}

void model_unlock(void)
{
    if (pthread_mutex_unlock(&lock) != 0)
        abort();
}

void note(uint32_t level, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_sdk(level, text);
}

doca_error_t refuse(doca_error_t code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    log_sdk(DOCA_LOG_LEVEL_ERROR, reason);
    return code;
}

doca_error_t unproven(const char *format, ...)
{
    char text[sizeof(reason)];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    model.unproven++;
    if (strict)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "unproven: %.480s", text);
    note(DOCA_LOG_LEVEL_WARNING, "unproven: %s", text);
    return DOCA_SUCCESS;
}

const char *doca_flow_model_reason(void)
{
    return reason;
}

void doca_flow_model_set_strict(bool value)
{
    model_lock();
    strict = value;
    model_unlock();
}

bool doca_flow_model_is_strict(void)
{
    bool value;

    model_lock();
    value = strict;
    model_unlock();
    return value;
}

uint64_t doca_flow_model_unproven(void)
{
    uint64_t value;

    model_lock();
    value = model.unproven;
    model_unlock();
    return value;
}

void doca_flow_model_seed(uint64_t seed)
{
    model_lock();
    random_state = seed != 0 ? seed : 1;
    faults_seed(seed);
    model_unlock();
}

/* xorshift64*: good enough for packet randoms and junk. */
uint64_t model_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dULL;
}

void doca_flow_model_set_clock(uint64_t now_ns)
{
    model_lock();
    clock_ns = now_ns;
    model_unlock();
}

uint64_t model_now_ns(void)
{
    struct timespec now;

    if (clock_ns != UINT64_MAX)
        return clock_ns;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}
