/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine tells about itself, as answers to commands. NULL without memory. */
#ifndef REPORT_H_
#define REPORT_H_

#include <jansson.h>

#include "engine.h"

json_t *report_status(const struct engine *engine);
/* Packets and bytes per VIP and backend, and what was dropped, by why. */
json_t *report_counters(struct engine *engine, struct fault *fault);
/* Packets per VIP and slot, whoever has the slot. */
json_t *report_slots(struct engine *engine, struct fault *fault);
/* The program, and for each slot what hardware does with it. */
json_t *report_dump(const struct engine *engine);

#endif
