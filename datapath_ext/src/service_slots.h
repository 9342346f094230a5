/* SPDX-License-Identifier: Apache-2.0 */
/* Between service.c and service_count.c. */
#ifndef SERVICE_SLOTS_H_
#define SERVICE_SLOTS_H_

#include "service.h"

/* The number of the backend's counter, made if there is none. False without memory. */
bool counter_find(struct service *service, const char *name, unsigned *number);
/* Brings the counter of the slot's backend up to its counter. */
bool slot_count(struct service *service, struct slot *slot);

#endif
