/* SPDX-License-Identifier: Apache-2.0 */
/* What services count. A slot's counter goes on when the slot becomes another backend's, so what it counted until then
 * is put to the account of the backend before. */
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "service_slots.h"

bool counter_find(struct service *service, const char *name, unsigned *number)
{
    struct backend_counter *counters;
    char *copy;

    for (*number = 0; *number < service->counter_count; (*number)++)
        if (strcmp(service->counters[*number].name, name) == 0)
            return true;
    counters = realloc(service->counters, (service->counter_count + 1) * sizeof(*counters));
    if (counters == NULL)
        return false;
    service->counters = counters;
    copy = strdup(name);
    if (copy == NULL)
        return false;
    counters[service->counter_count++] = (struct backend_counter){.name = copy};
    return true;
}

bool slot_count(struct service *service, struct slot *slot)
{
    struct backend_counter *counter = &service->counters[slot->counter];
    uint64_t packets, bytes;

    if (slot->entry == NULL)
        return true;
    if (!count_entry(slot->entry, &packets, &bytes))
        return false;
    if (packets < slot->packets) /* should hardware start anew at an update, as no document excludes */
        slot->packets = slot->bytes = 0;
    counter->packets += packets - slot->packets;
    counter->bytes += bytes - slot->bytes;
    slot->packets = packets;
    slot->bytes = bytes;
    return true;
}

bool service_count(struct service *service)
{
    for (unsigned i = 0; i < service->slot_count; i++)
        if (!slot_count(service, &service->slots[i]))
            return false;
    return true;
}

void service_transfer_counts(struct service *service, struct service *successor)
{
    (void)service_count(service); /* if a counter cannot be read, what is tallied counts */
    for (unsigned i = 0; i < service->counter_count; i++) {
        struct backend_counter *counter = &service->counters[i];
        unsigned number;

        if (!counter_find(successor, counter->name, &number))
            return;
        successor->counters[number].packets += counter->packets;
        successor->counters[number].bytes += counter->bytes;
        counter->packets = counter->bytes = 0;
    }
}
