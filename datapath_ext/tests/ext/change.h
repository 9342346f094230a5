/* SPDX-License-Identifier: Apache-2.0 */
/* Two programs between which everything changes that can change, and how packets show which one is followed. */
#ifndef TESTS_EXT_CHANGE_H_
#define TESTS_EXT_CHANGE_H_

#include <jansson.h>
#include <stdbool.h>

json_t *change_before(void);
json_t *change_after(void);
void change_check_before(void);
void change_check_after(void);

/* Takes the JSON over; whether the load was accepted. */
bool change_load(json_t *json);

#endif
