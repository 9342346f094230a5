/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements share: settings, the clock, medians, and starting a program. */
#ifndef BENCH_COMMON_H_
#define BENCH_COMMON_H_

#include "engine.h"
#include "modes.h"

struct settings {
    unsigned vips, rounds, wire_rounds;
    double seconds; /* of one measurement on devices */
    const char *mode; /* only this one; NULL: all */
};

bool setting_wants(const struct settings *settings, const struct mode *mode);
double median(double *values, size_t count);
uint64_t now_ns(void);

/* Ends the process if the program does not start. */
void bench_open(struct engine *engine, const struct mode *mode, unsigned vips, const char *const devices[2]);

#endif
