/* The benchmark's parts. */
#ifndef BENCH_BENCH_H_
#define BENCH_BENCH_H_

#include "engine.h"
#include "modes.h"

struct settings {
    unsigned vips, rounds, wire_rounds;
    double seconds; /* of one measurement on devices */
    const char *mode; /* only this one; NULL: all */
};

/* Where the figures are from. */
json_t *machine_json(void);
bool setting_wants(const struct settings *settings, const struct mode *mode);
double median(double *values, size_t count);
uint64_t now_ns(void);

/* Ends the process if the program does not start. */
void bench_open(struct engine *engine, const struct mode *mode, unsigned vips, const char *const devices[2]);

/* Direct calls, no devices. */
json_t *memory_json(const struct settings *settings);
/* Between two pairs of network devices in a namespace of its own; NULL without the rights for that. */
json_t *wire_json(const struct settings *settings);

#endif
