/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <stdlib.h>
#include <string.h>

#include "leftover.h"
#include "removal.h"
#include "service_slots.h"

bool service_matches(const struct service *service, const struct vip *vip)
{
    return memcmp(&service->vip->address, &vip->address, sizeof(vip->address)) == 0 &&
           service->vip->protocol == vip->protocol && service->vip->port == vip->port &&
           (service->vip->probe != NULL) == (vip->probe != NULL);
}

bool service_updatable(const struct service *service, const struct vip *vip)
{
    struct selector_key key = selector_key_of(vip);

    return service_matches(service, vip) && selector_key_same(&service->selector->key, &key) &&
           (vip->probe == NULL || memcmp(service->vip->probe, vip->probe, sizeof(*vip->probe)) == 0);
}

static struct slot_content content_of(const struct dataplane *dataplane, const struct vip *vip,
                                      const struct backend *backend)
{
    const struct target *target = vip->forward->targets != NULL ? target_find(dataplane, vip, backend) : NULL;

    return vip->forward->slot_content(backend, target);
}

/* What each backend's slots hold, by the backend's number: looked up once, not once per slot. */
static struct slot_content *contents_of(const struct dataplane *dataplane, const struct program *program,
                                        const struct vip *vip)
{
    struct slot_content *contents = calloc(program->backend_count + 1, sizeof(*contents));
    bool *known = calloc(program->backend_count + 1, sizeof(*known));

    for (unsigned i = 0; contents != NULL && known != NULL && i < vip->slot_count; i++)
        if (!known[vip->slots[i]]) {
            contents[vip->slots[i]] = content_of(dataplane, vip, &program->backends[vip->slots[i]]);
            known[vip->slots[i]] = true;
        }
    if (known == NULL) {
        free(contents);
        contents = NULL;
    }
    free(known);
    return contents;
}

/* Makes the slot the backend's: adds its entry, or changes it if it is there. */
static bool set_slot(struct dataplane *dataplane, struct service *service, unsigned number, const char *backend,
                     const struct slot_content *content, struct fault *fault)
{
    struct flow_port *in = &dataplane->flow.ports[PORT_IN];
    const struct forward_ops *forward = service->selector->key.forward;
    const struct forward_pipes *pipes = &dataplane->forwarding[forward_number(forward)];
    struct slot *slot = &service->slots[number];
    unsigned counter;

    if (!counter_find(service, backend, &counter))
        return fault_set(fault, "no memory for counts");
    if (slot->entry != NULL && slot->counter != counter && !slot_count(service, slot))
        return fault_set(fault, "the counter of slot %u cannot be read", number);
    if (slot->entry == NULL) {
        slot->current = false;
        if (!slot_add(pipes, in, forward, service->id, number, content, &slot->entry, fault))
            return false;
    } else if (!slot->current || memcmp(&slot->content, content, sizeof(*content)) != 0) {
        slot->current = false;
        if (!slot_update(pipes, in, forward, content, slot->entry, fault)) {
            service->refused = true;
            return false;
        }
        dataplane->slots_updated++;
    }
    slot->content = *content;
    slot->counter = counter;
    return true;
}

static bool set_slots(struct dataplane *dataplane, struct service *service, const struct program *program,
                      const struct vip *vip, struct fault *fault)
{
    struct slot_content *contents = contents_of(dataplane, program, vip);
    bool done = contents != NULL || fault_set(fault, "no memory for slots");

    for (unsigned i = 0; i < vip->slot_count && done; i++)
        done = set_slot(dataplane, service, i, program->backends[vip->slots[i]].name, &contents[vip->slots[i]], fault);
    if (!flow_wait(&dataplane->flow.ports[PORT_IN], fault)) {
        service->refused = true;
        done = false;
    }
    for (unsigned i = 0; i < vip->slot_count && done; i++)
        service->slots[i].current = true;
    free(contents);
    return done;
}

bool service_sync_answers(struct dataplane *dataplane, struct service *service, const struct program *program,
                            const struct vip *vip, struct fault *fault)
{
    const struct answer_ops *ops = vip->forward->answers;

    return ops == NULL || ops->sync(dataplane, service, program, vip, fault);
}

bool service_inherit_answers(struct dataplane *dataplane, struct service *service, const struct service *before,
                             const struct program *program, struct fault *fault)
{
    const struct answer_ops *ops = service->vip->forward->answers;

    return ops == NULL || ops->inherit(dataplane, service, before, program, fault);
}

bool service_yield_answers(struct dataplane *dataplane, struct service *leaving, const struct service *other,
                           struct fault *fault)
{
    const struct answer_ops *ops = leaving->vip->forward->answers;

    return ops == NULL || ops != other->vip->forward->answers || ops->yield(dataplane, leaving, other, fault);
}

static bool prune_answers(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    const struct answer_ops *ops = service->vip->forward->answers;

    return ops == NULL || ops->prune(dataplane, service, fault);
}

struct service *service_build(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                              uint32_t priority, struct fault *fault)
{
    struct service *service = calloc(1, sizeof(*service));

    if (service == NULL || (service->name = strdup(vip->name)) == NULL ||
        (service->slots = calloc(vip->slot_count, sizeof(*service->slots))) == NULL) {
        if (service != NULL)
            service_forget(service);
        (void)fault_set(fault, "no memory for a VIP");
        return NULL;
    }
    service->vip = vip;
    service->id = dataplane->next_id++;
    service->priority = priority;
    service->slot_count = vip->slot_count;
    service->selector = selector_get(&dataplane->selectors, &dataplane->flow.ports[PORT_IN], vip,
                                     dataplane->forwarding[forward_number(vip->forward)].slots, fault);
    if (service->selector == NULL) {
        service_forget(service);
        return NULL;
    }
    if (set_slots(dataplane, service, program, vip, fault) &&
        service_sync_answers(dataplane, service, program, vip, fault))
        return service;
    leftover_add(dataplane, service);
    return NULL;
}

bool service_refresh(struct dataplane *dataplane, struct service *service, const struct program *program,
                     struct fault *fault)
{
    return set_slots(dataplane, service, program, service->vip, fault);
}

bool service_attach(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    service->attached = classifier_add(&dataplane->queries, service->vip, service->id, service->priority,
                                      service->selector->pipe, &service->entry, fault) &&
                       flow_wait(dataplane->queries.port, fault);
    return service->attached;
}

/* Answers of new backends are let in already; those of old ones are as long as they may come. */
bool service_update(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault)
{
    service->refused = false;
    if (!set_slots(dataplane, service, program, vip, fault) || !prune_answers(dataplane, service, fault))
        return false;
    service->vip = vip;
    /* Unless it was left, or attached, in vain. */
    return service->attached ||
           (service_detach(dataplane, service, fault) && service_attach(dataplane, service, fault));
}

bool service_detach(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    if (service->entry != NULL &&
        !remove_entry(&dataplane->flow.ports[PORT_IN], &service->entry, fault, "removing a VIP")) {
        /* Lost on the way: hardware may still remove it, so that what undoes this adds it again. */
        service->attached = service->attached && service->entry != NULL;
        return false;
    }
    service->attached = false;
    return true;
}

static void forget_counters(struct service *service)
{
    for (unsigned i = 0; i < service->counter_count; i++)
        free(service->counters[i].name);
    free(service->counters);
    service->counters = NULL;
    service->counter_count = 0;
}

void service_dismantle(struct dataplane *dataplane, struct service *service)
{
    struct removals removals;

    forget_counters(service);
    removals_begin(&removals, &dataplane->flow.ports[PORT_IN]);
    for (unsigned i = 0; i < service->slot_count; i++)
        removals_add(&removals, &service->slots[i].entry);
    (void)removals_end(&removals);
    if (service->vip->forward->answers != NULL)
        service->vip->forward->answers->remove(dataplane, service);
    if (service->selector != NULL)
        selector_put(&dataplane->selectors, &dataplane->flow.ports[PORT_IN], service->selector);
    service->selector = NULL;
}

void service_part(struct service *service)
{
    if (service->vip == &service->own)
        return;
    service->own = *service->vip;
    service->own.name = service->name;
    service->own.slots = NULL;
    service->own.numbers = NULL;
    if (service->vip->probe != NULL) {
        service->own_probe = *service->vip->probe;
        service->own.probe = &service->own_probe;
    }
    service->vip = &service->own;
}

void service_forget(struct service *service)
{
    while (service->answers != NULL) {
        struct answer *answer = service->answers;

        service->answers = answer->next;
        free(answer);
    }
    forget_counters(service);
    free(service->slots);
    free(service->name);
    free(service);
}
