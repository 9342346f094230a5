/* SPDX-License-Identifier: Apache-2.0 */
/* While hardware refuses: packets fare as the program says, and what `status` says is used is what the pipes hold. */
#ifndef TESTS_EXT_CHECKS_H_
#define TESTS_EXT_CHECKS_H_

#include <doca_flow_model.h>
#include <jansson.h>
#include <stdbool.h>

/* What the model refuses from now on. */
void set_faults(struct doca_flow_model_faults faults);
/* Takes the JSON over; whether the load was accepted. */
bool try_load(json_t *json);
void down_without_faults(void);
/* Another selection of a VIP of the program. */
void select_of(json_t *json, unsigned vip, const char *select);

/* The number at a path of the answer to `status`. */
json_int_t of_status(const char *path);
/* What is used is what is there, however it came there. */
void check_status(void);
/* Each slot of each VIP that chooses by the source port, and any packet of the others; each answer of siit. */
void check_packets(void);

#endif
