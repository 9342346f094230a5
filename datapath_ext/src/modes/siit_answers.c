/* SPDX-License-Identifier: Apache-2.0 */
#include "siit_answers.h"

#include <doca_bitfield.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"
#include "leftover.h"
#include "removal.h"

enum { TRIES = 3 };

static const struct forward_pipes *pipes_of(const struct dataplane *dataplane)
{
    return &dataplane->forwarding[forward_number(&forward_siit)];
}

/* Answers that are let in for this service come from its VIP; those to probes go to the MAC address of probes. */
static bool add_source(struct dataplane *dataplane, struct service *service, const struct vip *vip,
                       struct fault *fault)
{
    struct flow_port *out = &dataplane->flow.ports[PORT_OUT];
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(service->id)}};
    struct doca_flow_actions actions = {0};

    put_source(&actions.outer, &vip->address);
    if (vip->probe != NULL)
        memcpy(actions.outer.eth.dst_mac, vip->probe->mac, 6);
    return flow_queued(out, compat_basic_add(pipes_of(dataplane)->pipes[SIIT_ANSWERS], &match, vip->probe != NULL ? 1 : 0,
                                             &actions, out, &service->source), fault, "adding the source of answers");
}

static struct answer *find(const struct service *service, const struct address *backend)
{
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        if ((answer->added || answer->used) && memcmp(&answer->backend, backend, sizeof(*backend)) == 0)
            return answer;
    return NULL;
}

/* Forgets those that are not in hardware any more. */
static void drop_removed(struct dataplane *dataplane, struct service *service)
{
    struct answer **link = &service->answers;

    while (*link != NULL) {
        struct answer *answer = *link;

        if (answer->entry != NULL) {
            link = &answer->next;
            continue;
        }
        *link = answer->next;
        free(answer);
        dataplane->answer_count--;
    }
}

static void remove_unused(struct dataplane *dataplane, struct service *service)
{
    struct removals removals;

    removals_begin(&removals, &dataplane->flow.ports[PORT_OUT]);
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        if (!answer->used)
            removals_add(&removals, &answer->entry);
    (void)removals_end(&removals);
    drop_removed(dataplane, service);
}

/* Removes what is unused: another VIP's answers may come that way now, so all of it must go. */
static bool prune(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    bool done = true;

    remove_unused(dataplane, service);
    for (struct answer *answer = service->answers; answer != NULL && done; answer = answer->next)
        done = answer->used || remove_entry(&dataplane->flow.ports[PORT_OUT], &answer->entry, fault,
                                            "removing answers of a backend");
    drop_removed(dataplane, service);
    return done;
}

/* Room for one more: if there is none, answers of backends that had lost their last slot before this load go. Without
 * them there is room for all old and new ones. */
static bool make_room(struct dataplane *dataplane, struct fault *fault)
{
    if (dataplane->answer_count < dataplane->answers_most)
        return true;
    for (size_t i = 0; i < dataplane->service_count; i++) {
        struct service *service = dataplane->services[i];

        for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
            if (answer->unused_since != 0 && answer->unused_since < dataplane->generation)
                answer->used = false;
        if (!prune(dataplane, service, fault))
            return false;
    }
    return true;
}

/* Whether answers of one backend to both look alike: from the same port, and probes' to the same address. */
static bool share_answers(const struct vip *one, const struct vip *other)
{
    if (one->port != other->port || one->protocol != other->protocol || (one->probe != NULL) != (other->probe != NULL))
        return false;
    return one->probe == NULL || memcmp(&one->probe->ip4, &other->probe->ip4, sizeof(one->probe->ip4)) == 0;
}

/* Whether entries of both do the same with them. */
static bool same_source(const struct vip *one, const struct vip *other)
{
    return memcmp(&one->address, &other->address, sizeof(one->address)) == 0 &&
           (one->probe == NULL || memcmp(one->probe->mac, other->probe->mac, sizeof(one->probe->mac)) == 0);
}

/* Which levels the service's entries for answers of the backend have, as bits. */
static unsigned levels_of(const struct service *service, const struct address *backend)
{
    unsigned levels = 0;

    for (const struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        if (answer->entry != NULL && memcmp(&answer->backend, backend, sizeof(*backend)) == 0)
            levels |= 1U << answer->priority;
    return levels;
}

/* Whether the backend's answers may get an entry, and its level: that of the service, unless it is taken still. */
static bool has_level(const struct dataplane *dataplane, const struct service *service, const struct vip *vip,
                      const struct address *backend, uint32_t *priority)
{
    uint32_t high = vip->probe != NULL ? PRIORITY_PROBE_HIGH : PRIORITY_HIGH;
    uint32_t low = vip->probe != NULL ? PRIORITY_PROBE_LOW : PRIORITY_LOW;
    unsigned levels = 0;

    for (const struct service *left = dataplane->leftovers; left != NULL; left = left->next)
        if (share_answers(left->vip, vip))
            levels |= levels_of(left, backend);
    for (size_t i = 0; i < dataplane->service_count; i++)
        if (share_answers(dataplane->services[i]->vip, vip))
            levels |= levels_of(dataplane->services[i], backend);
    *priority = service->priority;
    if (levels & 1U << *priority)
        *priority = *priority == high ? low : high;
    return (levels & 1U << *priority) == 0;
}

/* An entry for late answers of a VIP that had the backend before gives way. */
static bool remove_late(struct dataplane *dataplane, const struct vip *vip, const struct address *backend)
{
    struct fault ignored = {0};

    for (size_t i = 0; i < dataplane->service_count; i++) {
        struct service *other = dataplane->services[i];

        if (!share_answers(other->vip, vip))
            continue;
        for (struct answer *answer = other->answers; answer != NULL; answer = answer->next)
            if (answer->unused_since != 0 && answer->unused_since < dataplane->generation &&
                memcmp(&answer->backend, backend, sizeof(*backend)) == 0 &&
                remove_entry(&dataplane->flow.ports[PORT_OUT], &answer->entry, &ignored, "removing late answers")) {
                drop_removed(dataplane, other);
                return true;
            }
    }
    return false;
}

/* What is in the way may be what hardware did not let go before, or what an earlier load left for late answers. */
static bool find_level(struct dataplane *dataplane, const struct service *service, const struct vip *vip,
                       const struct address *backend, uint32_t *priority, struct fault *fault)
{
    for (unsigned i = 0; i < TRIES; i++) {
        if (has_level(dataplane, service, vip, backend, priority))
            return true;
        if (!remove_late(dataplane, vip, backend))
            leftovers_retry(dataplane);
    }
    return has_level(dataplane, service, vip, backend, priority) ||
           fault_set(fault, "hardware refuses to remove entries for the answers of a backend; a later load can do it");
}

static bool add(struct dataplane *dataplane, struct service *service, const struct vip *vip,
                const struct address *backend, struct fault *fault)
{
    /* Only to clients that a translation made: the low 32 bits of other addresses belong to no client. */
    struct prefix clients = {.address = {.family = 6, .bytes = {0x00, 0x64, 0xff, 0x9b}}, .length = 96};
    struct doca_flow_fwd fwd = fwd_list(pipes_of(dataplane)->pipes[SIIT_TO_IP4]);
    struct answer *answer;
    uint32_t priority;
    bool done;

    if (vip->probe != NULL) {
        memcpy(&clients.address.bytes[12], vip->probe->ip4.bytes, 4);
        clients.length = 128;
    }
    if (!make_room(dataplane, fault) || !find_level(dataplane, service, vip, backend, &priority, fault))
        return false;
    answer = calloc(1, sizeof(*answer));
    if (answer == NULL)
        return fault_set(fault, "no memory for answers");
    done = classifier_add_answer(&dataplane->answers, vip, backend, &clients, service->id, priority, &fwd,
                                 &answer->entry, fault);
    if (answer->entry == NULL) {
        free(answer);
        return false;
    }
    answer->backend = *backend;
    answer->priority = priority;
    answer->used = true;
    answer->next = service->answers;
    service->answers = answer;
    dataplane->answer_count++;
    return done;
}

/* A backend that lost its slots still answers what it was asked before. Its answers are let in as long as it is in the
 * program and no other VIP could have asked. */
static bool may_come(const struct program *program, const struct vip *vip, const struct address *address)
{
    unsigned number = 0;

    while (number < program->backend_count &&
           memcmp(&program->backends[number].address, address, sizeof(*address)) != 0)
        number++;
    if (number == program->backend_count)
        return false;
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *other = &program->vips[i];

        if (other == vip || other->forward != &forward_siit || other->port != vip->port ||
            other->protocol != vip->protocol || (other->probe != NULL) != (vip->probe != NULL))
            continue;
        for (unsigned slot = 0; slot < other->slot_count; slot++)
            if (other->slots[slot] == number)
                return false;
    }
    return true;
}

/* Adds what is not there, and says what is used from now on. */
static bool add_missing(struct dataplane *dataplane, struct service *service, const struct program *program,
                   const struct vip *vip, struct fault *fault)
{
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next) {
        answer->used = false;
        if (answer->unused_since == 0)
            answer->unused_since = dataplane->generation; /* unless it has a slot */
    }
    for (unsigned i = 0; i < vip->slot_count; i++) {
        struct answer *answer = find(service, &program->backends[vip->slots[i]].address);

        if (answer != NULL) {
            answer->used = true;
            answer->unused_since = 0;
        }
    }
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        answer->used = answer->used || (answer->added && may_come(program, vip, &answer->backend));
    for (unsigned i = 0; i < vip->slot_count; i++) {
        const struct address *backend = &program->backends[vip->slots[i]].address;

        if (find(service, backend) == NULL && !add(dataplane, service, vip, backend, fault))
            return false;
    }
    return true;
}

/* Until the whole is done. */
static bool complete(struct dataplane *dataplane, struct service *service, bool done, struct fault *fault)
{
    done = flow_wait(&dataplane->flow.ports[PORT_OUT], fault) && done;
    for (struct answer *answer = service->answers; answer != NULL && done; answer = answer->next)
        answer->added = answer->added || answer->used;
    return done;
}

static bool inherit(struct dataplane *dataplane, struct service *service, const struct service *before,
                     const struct program *program, struct fault *fault)
{
    uint32_t priority;
    bool done = true;

    for (const struct answer *old = before->answers; old != NULL && done; old = old->next) {
        if (!old->added || find(service, &old->backend) != NULL || !may_come(program, service->vip, &old->backend) ||
            dataplane->answer_count >= dataplane->answers_most ||
            !has_level(dataplane, service, service->vip, &old->backend, &priority)) /* making way could take `old` */
            continue;
        done = add(dataplane, service, service->vip, &old->backend, fault);
        if (done)
            service->answers->unused_since = old->unused_since != 0 ? old->unused_since : dataplane->generation;
    }
    return complete(dataplane, service, done, fault);
}

static bool sync_answers(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault)
{
    if (service->source == NULL && !add_source(dataplane, service, vip, fault))
        return false;
    return complete(dataplane, service, add_missing(dataplane, service, program, vip, fault), fault);
}

/* Not those of the lower level, which the other's come before. */
static bool yield(struct dataplane *dataplane, struct service *leaving, const struct service *other, struct fault *fault)
{
    bool done = true;

    if (!share_answers(leaving->vip, other->vip) || same_source(leaving->vip, other->vip))
        return true;
    for (struct answer *answer = leaving->answers; answer != NULL && done; answer = answer->next)
        if (levels_of(other, &answer->backend) >> answer->priority > 1)
            done = remove_entry(&dataplane->flow.ports[PORT_OUT], &answer->entry, fault,
                                "removing the entry for answers of a backend that another VIP has now");
    drop_removed(dataplane, leaving);
    return done;
}

/* The source last: answers that are still let in need it. */
static void remove_all(struct dataplane *dataplane, struct service *service)
{
    struct removals removals;

    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        answer->used = false;
    remove_unused(dataplane, service);
    if (service->answers != NULL)
        return;
    removals_begin(&removals, &dataplane->flow.ports[PORT_OUT]);
    removals_add(&removals, &service->source);
    (void)removals_end(&removals);
}

const struct answer_ops siit_answers = {
    .sync = sync_answers,
    .inherit = inherit,
    .prune = prune,
    .yield = yield,
    .remove = remove_all,
};
