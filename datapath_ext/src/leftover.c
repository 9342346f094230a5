/* SPDX-License-Identifier: Apache-2.0 */
#include "leftover.h"

#include <stdlib.h>

static unsigned slots_of(const struct service *service)
{
    unsigned count = 0;

    for (unsigned i = 0; i < service->slot_count; i++)
        count += service->slots[i].entry != NULL;
    return count;
}

static unsigned entries_of(const struct service *service)
{
    unsigned count = slots_of(service) + (service->entry != NULL) + (service->source != NULL);

    for (const struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        count++;
    return count;
}

static bool remove_all(struct dataplane *dataplane, struct service *service)
{
    struct service *successor = dataplane_find(dataplane, service->vip);
    struct fault ignored = {0};
    bool detached = service_detach(dataplane, service, &ignored);

    if (successor != NULL && service->counters != NULL)
        service_transfer_counts(service, successor);
    if (!detached)
        return false;
    service_dismantle(dataplane, service);
    return entries_of(service) == 0;
}

void leftover_add(struct dataplane *dataplane, struct service *service)
{
    service_part(service);
    if (remove_all(dataplane, service)) {
        service_forget(service);
        return;
    }
    service->next = dataplane->leftovers;
    dataplane->leftovers = service;
}

void leftovers_retry(struct dataplane *dataplane)
{
    struct service **link = &dataplane->leftovers;

    while (*link != NULL) {
        struct service *service = *link;

        if (!remove_all(dataplane, service)) {
            link = &service->next;
            continue;
        }
        *link = service->next;
        service_forget(service);
    }
    targets_retry(dataplane);
}

bool leftovers_check(const struct dataplane *dataplane, struct fault *fault)
{
    for (const struct service *left = dataplane->leftovers; left != NULL; left = left->next) {
        const struct service *service = dataplane_find(dataplane, left->vip);

        if (left->entry != NULL && (service == NULL || !service->attached || service->priority > left->priority))
            return fault_set(fault, "vip %s: hardware refuses to remove an entry that has its packets", left->name);
    }
    return true;
}

const struct service *leftover_find(const struct dataplane *dataplane, const struct vip *vip, uint32_t priority)
{
    for (const struct service *left = dataplane->leftovers; left != NULL; left = left->next)
        if (left->entry != NULL && service_matches(left, vip) && (priority == 0 || left->priority == priority))
            return left;
    return NULL;
}

unsigned leftovers_slots(const struct dataplane *dataplane)
{
    unsigned count = 0;

    for (const struct service *left = dataplane->leftovers; left != NULL; left = left->next)
        count += slots_of(left);
    return count;
}

unsigned leftovers_entries(const struct dataplane *dataplane)
{
    unsigned count = 0;

    for (const struct service *left = dataplane->leftovers; left != NULL; left = left->next)
        count += entries_of(left);
    for (const struct target *target = dataplane->targets; target != NULL; target = target->next)
        count += target->leaving;
    return count;
}

void leftovers_forget(struct dataplane *dataplane)
{
    while (dataplane->leftovers != NULL) {
        struct service *service = dataplane->leftovers;

        dataplane->leftovers = service->next;
        service_forget(service);
    }
}
