/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <doca_flow_model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool setting_wants(const struct settings *settings, const struct mode *mode)
{
    return settings->mode == NULL || strcmp(settings->mode, mode->name) == 0;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return count == 0 ? 0 : count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void bench_open(struct engine *engine, const struct mode *mode, unsigned vips, const char *const devices[2])
{
    struct fault fault = {0};
    json_t *json = mode_program(mode, vips, devices);
    struct program *program = program_read(json, &fault);

    json_decref(json);
    for (unsigned i = 0; i < 2; i++)
        (void)doca_flow_model_device_add(devices[i]);
    if (program == NULL || !engine_open(engine, program, &fault)) {
        (void)fprintf(stderr, "%s: %s\n", mode->name, fault.text);
        exit(EXIT_FAILURE);
    }
}
