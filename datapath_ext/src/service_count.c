/* What services count. A slot's counter goes on when the slot becomes another backend's, so what it counted until then
 * is put to the account of the backend before. */
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "service_slots.h"

bool tally_find(struct service *service, const char *name, unsigned *number)
{
    struct tally *tallies;
    char *copy;

    for (*number = 0; *number < service->tally_count; (*number)++)
        if (strcmp(service->tallies[*number].name, name) == 0)
            return true;
    tallies = realloc(service->tallies, (service->tally_count + 1) * sizeof(*tallies));
    if (tallies == NULL)
        return false;
    service->tallies = tallies;
    copy = strdup(name);
    if (copy == NULL)
        return false;
    tallies[service->tally_count++] = (struct tally){.name = copy};
    return true;
}

bool slot_count(struct service *service, struct slot *slot)
{
    struct tally *tally = &service->tallies[slot->tally];
    uint64_t packets, bytes;

    if (slot->entry == NULL)
        return true;
    if (!count_entry(slot->entry, &packets, &bytes))
        return false;
    if (packets < slot->packets) /* should hardware start anew at an update, as no document excludes */
        slot->packets = slot->bytes = 0;
    tally->packets += packets - slot->packets;
    tally->bytes += bytes - slot->bytes;
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

void service_bequeath(struct service *service, struct service *heir)
{
    (void)service_count(service); /* if a counter cannot be read, what is tallied counts */
    for (unsigned i = 0; i < service->tally_count; i++) {
        unsigned number;

        if (!tally_find(heir, service->tallies[i].name, &number))
            return;
        heir->tallies[number].packets += service->tallies[i].packets;
        heir->tallies[number].bytes += service->tallies[i].bytes;
    }
}
