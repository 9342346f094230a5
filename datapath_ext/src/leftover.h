/* SPDX-License-Identifier: Apache-2.0 */
/* What hardware refused to let go: services that are none any more, whole or in part, and targets. It is tried again before
 * each load and every second, and what is left of it takes room until then. */
#ifndef LEFTOVER_H_
#define LEFTOVER_H_

#include "service.h"

/* Takes the service apart, and keeps what hardware does not let go. It is no service of the program any more; its counts go
 * to the one that has its packets now, if there is one. */
void leftover_add(struct dataplane *dataplane, struct service *service);
void leftovers_retry(struct dataplane *dataplane);
/* False if one of them still has packets: one that no entry of a service comes before. */
bool leftovers_check(const struct dataplane *dataplane, struct fault *fault);
/* The one that has the VIP's entry of this level, or of any level if that is 0; NULL: nobody. */
const struct service *leftover_find(const struct dataplane *dataplane, const struct vip *vip, uint32_t priority);
unsigned leftovers_slots(const struct dataplane *dataplane);
/* Entries of all kinds that wait to be removed. */
unsigned leftovers_entries(const struct dataplane *dataplane);
void leftovers_forget(struct dataplane *dataplane);

#endif
