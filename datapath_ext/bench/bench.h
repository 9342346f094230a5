/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements, as JSON. */
#ifndef BENCH_BENCH_H_
#define BENCH_BENCH_H_

#include "common.h"

/* Where the figures are from. */
json_t *machine_json(void);
/* Direct calls, no devices. */
json_t *memory_json(const struct settings *settings);
/* Between two pairs of network devices in a namespace of its own; NULL without the rights for that. */
json_t *wire_json(const struct settings *settings);

#endif
