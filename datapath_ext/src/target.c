/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <stdlib.h>
#include <string.h>

#include "dataplane.h"
#include "removal.h"

struct target *target_find(const struct dataplane *dataplane, const struct vip *vip, const struct backend *backend)
{
    for (struct target *target = dataplane->targets; target != NULL; target = target->next)
        if (target->added && !target->superseded && !target->leaving && target->forward == vip->forward &&
            target->inner == vip->address.family && target->outer == backend->address.family &&
            strcmp(target->name, backend->name) == 0)
            return target;
    return NULL;
}

static struct flow_port *port_of(struct dataplane *dataplane, const struct target *target)
{
    return &dataplane->flow.ports[target->forward->targets->port];
}

static const struct forward_pipes *pipes_of(const struct dataplane *dataplane, const struct target *target)
{
    return &dataplane->forwarding[forward_number(target->forward)];
}

static bool same(const struct target *target, const struct target_headers *headers)
{
    return target->current && memcmp(&target->headers, headers, sizeof(*headers)) == 0;
}

static bool update(struct dataplane *dataplane, struct target *target, const struct target_headers *headers,
                   struct fault *fault)
{
    struct flow_port *port = port_of(dataplane, target);
    bool done = target->forward->targets->update(pipes_of(dataplane, target), port, target->inner, headers,
                                                 target->entry, fault);

    target->current = flow_wait(port, fault) && done;
    if (!target->current)
        return false;
    target->headers = *headers;
    dataplane->targets_updated++;
    return true;
}

static void release(struct target *target)
{
    free(target->name);
    free(target);
}

static bool check_room(const struct dataplane *dataplane, uint32_t most, struct fault *fault)
{
    unsigned count = 0, all = 0; /* what hardware keeps has the entries to spare */

    for (const struct target *target = dataplane->targets; target != NULL; target = target->next) {
        count += !target->leaving;
        all++;
    }
    return (count < most && all < budgets_target_entries(&dataplane->budgets)) ||
           fault_set(fault, "out of entries for backends: $.budgets.backends is %u, and changing needs room for old and "
                     "new", dataplane->budgets.backends);
}

static bool add(struct dataplane *dataplane, const struct vip *vip, const struct backend *backend,
                const struct target_headers *headers, uint32_t most, struct fault *fault)
{
    struct target *target;
    struct flow_port *port;
    bool done;

    if (!check_room(dataplane, most, fault))
        return false;
    target = calloc(1, sizeof(*target));
    if (target == NULL || (target->name = strdup(backend->name)) == NULL) {
        free(target);
        return fault_set(fault, "no memory for a backend");
    }
    target->forward = vip->forward;
    target->outer = backend->address.family;
    target->inner = vip->address.family;
    target->mark = dataplane->next_id++;
    target->headers = *headers;
    port = port_of(dataplane, target);
    done = target->forward->targets->add(pipes_of(dataplane, target), port, target->mark, target->inner, headers,
                                         &target->entry, fault);
    done = flow_wait(port, fault) && done;
    if (!done && target->entry == NULL) {
        release(target);
        return false;
    }
    target->added = target->current = target->used = done;
    target->next = dataplane->targets;
    dataplane->targets = target; /* also what failed late: it is removed with what nobody uses */
    return done;
}

typedef bool (*visitor)(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                      const struct backend *backend, struct fault *fault);

static bool visit_add(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                      const struct backend *backend, struct fault *fault)
{
    struct target *target = target_find(dataplane, vip, backend);
    struct target_headers headers = vip->forward->targets->headers(program, backend);

    if (target == NULL)
        return add(dataplane, vip, backend, &headers, dataplane->budgets.backends, fault);
    target->used = true;
    return true;
}

static bool visit_update(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                         const struct backend *backend, struct fault *fault)
{
    struct target *target = target_find(dataplane, vip, backend);
    struct target_headers headers = vip->forward->targets->headers(program, backend);

    struct fault refusal = {0};

    if (target == NULL || same(target, &headers) || update(dataplane, target, &headers, &refusal))
        return true;
    if (!add(dataplane, vip, backend, &headers, budgets_target_entries(&dataplane->budgets), fault))
        return fault_set(fault, "%s", refusal.text);
    target->superseded = true;
    dataplane->targets_superseded++;
    return true;
}

/* Each backend of the VIP once, however many slots it has. */
static bool visit_vip(struct dataplane *dataplane, const struct program *program, const struct vip *vip, bool *seen,
                      visitor visit, struct fault *fault)
{
    memset(seen, 0, program->backend_count * sizeof(*seen));
    for (unsigned i = 0; i < vip->slot_count; i++) {
        const struct backend *backend = &program->backends[vip->slots[i]];

        if (seen[vip->slots[i]])
            continue;
        seen[vip->slots[i]] = true;
        if (!visit(dataplane, program, vip, backend, fault)) {
            (void)fault_about(fault, "backend", backend->name);
            return fault_about(fault, "vip", vip->name);
        }
    }
    return true;
}

static bool visit_all(struct dataplane *dataplane, const struct program *program, visitor visit, struct fault *fault)
{
    bool *seen = calloc(program->backend_count + 1, sizeof(*seen)), done = true;

    if (seen == NULL)
        return fault_set(fault, "no memory for backends");
    for (size_t i = 0; i < program->vip_count && done; i++)
        if (program->vips[i].forward->targets != NULL)
            done = visit_vip(dataplane, program, &program->vips[i], seen, visit, fault);
    free(seen);
    return done;
}

bool targets_add(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    for (struct target *target = dataplane->targets; target != NULL; target = target->next)
        target->used = false;
    return visit_all(dataplane, program, visit_add, fault);
}

bool targets_update(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    return visit_all(dataplane, program, visit_update, fault);
}

void targets_retry(struct dataplane *dataplane)
{
    struct target **link = &dataplane->targets;
    struct removals removals;

    for (unsigned port = 0; port < PORTS; port++) {
        removals_begin(&removals, &dataplane->flow.ports[port]);
        for (struct target *target = dataplane->targets; target != NULL; target = target->next)
            if (target->leaving && target->forward->targets->port == port)
                removals_add(&removals, &target->entry);
        (void)removals_end(&removals);
    }
    while (*link != NULL) {
        struct target *target = *link;

        if (target->entry != NULL) {
            link = &target->next;
            continue;
        }
        *link = target->next;
        release(target);
    }
}

void targets_prune(struct dataplane *dataplane)
{
    for (struct target *target = dataplane->targets; target != NULL; target = target->next)
        target->leaving = target->leaving || target->superseded || !target->used;
    targets_retry(dataplane);
}

void targets_forget(struct dataplane *dataplane)
{
    while (dataplane->targets != NULL) {
        struct target *target = dataplane->targets;

        dataplane->targets = target->next;
        release(target);
    }
}
