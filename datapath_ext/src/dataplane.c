/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane.h"

#include <stdlib.h>
#include <string.h>

#include "leftover.h"

/* Answers of each backend to each VIP and to its probes, or fewer if there are not so many slots; twice, for VIPs that
 * change. */
static uint32_t answers_at_most(const struct budgets *budgets)
{
    uint64_t pairs = (uint64_t)SERVICES_PER_VIP * budgets->vips * budgets->backends, slots = 2ULL * budgets->slots;

    return (uint32_t)(pairs < slots ? pairs : slots);
}

bool dataplane_open(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    struct flow_port *ports = dataplane->flow.ports;

    memset(dataplane, 0, sizeof(*dataplane));
    dataplane->budgets = program->budgets;
    dataplane->next_id = FIRST_ID;
    dataplane->answers_most = answers_at_most(&program->budgets);
    if (!flow_up(&dataplane->flow, program, fault))
        return false;
    if (classifier_open(&dataplane->queries, &ports[PORT_IN], SERVICES_PER_VIP * program->budgets.vips, fault) &&
        classifier_open(&dataplane->answers, &ports[PORT_OUT], dataplane->answers_most, fault))
        return true;
    dataplane_close(dataplane);
    return false;
}

void dataplane_close(struct dataplane *dataplane)
{
    /* The ports take their pipes with them; here only memory is given back. */
    for (size_t i = 0; i < dataplane->service_count; i++)
        service_forget(dataplane->services[i]);
    free(dataplane->services);
    leftovers_forget(dataplane);
    targets_forget(dataplane);
    while (dataplane->selectors != NULL) {
        struct selector *selector = dataplane->selectors;

        dataplane->selectors = selector->next;
        selector_free(selector);
    }
    flow_down(&dataplane->flow);
    memset(dataplane, 0, sizeof(*dataplane));
}

static bool is_of(const struct service *service, const struct program *program)
{
    return service->vip >= program->vips && service->vip < program->vips + program->vip_count;
}

bool dataplane_uses(const struct dataplane *dataplane, const struct program *program)
{
    bool used = false;

    for (size_t i = 0; i < dataplane->service_count && !used; i++)
        used = is_of(dataplane->services[i], program);
    return used;
}

struct service *dataplane_find(const struct dataplane *dataplane, const struct vip *vip)
{
    for (size_t i = 0; i < dataplane->service_count; i++)
        if (service_matches(dataplane->services[i], vip))
            return dataplane->services[i];
    return NULL;
}

static bool check_constants(const struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    const struct budgets *old = &dataplane->budgets, *new = &program->budgets;

    if (strcmp(dataplane->flow.ports[PORT_IN].name, program->in) != 0 ||
        strcmp(dataplane->flow.ports[PORT_OUT].name, program->out) != 0)
        return fault_set(fault, "$.ports: found %s and %s, expected %s and %s, which are open; other ports need a "
                         "restart", program->in, program->out, dataplane->flow.ports[PORT_IN].name,
                         dataplane->flow.ports[PORT_OUT].name);
    return (old->vips == new->vips && old->slots == new->slots && old->backends == new->backends &&
            old->counters == new->counters) ||
           fault_set(fault, "$.budgets: found other ones than at the start; they need a restart");
}

/* A VIP that does not change in place is there twice until the new one has taken over. What hardware keeps of VIPs before
 * has the entries to spare, which no budget counts. */
static bool check_room(const struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    unsigned long slots = 0, counters = COUNTERS_OWN, kept = leftovers_slots(dataplane);

    for (size_t i = 0; i < dataplane->service_count; i++) {
        slots += dataplane->services[i]->slot_count;
        counters += dataplane->services[i]->slot_count;
    }
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];
        const struct service *service = dataplane_find(dataplane, vip);

        if (service == NULL || !service_updatable(service, vip)) {
            slots += vip->slot_count;
            counters += vip->slot_count;
        }
        if (slots > dataplane->budgets.slots)
            return fault_set(fault, "vip %s: out of entries: needs %lu slots with those that it replaces, "
                             "$.budgets.slots is %u", vip->name, slots, dataplane->budgets.slots);
        if (counters > dataplane->budgets.counters)
            return fault_set(fault, "vip %s: out of counters: needs %lu with those that it replaces, "
                             "$.budgets.counters is %u", vip->name, counters, dataplane->budgets.counters);
    }
    return (slots + kept <= budgets_slot_entries(&dataplane->budgets) &&
            counters + kept <= budgets_counters(&dataplane->budgets)) ||
           fault_set(fault, "out of entries: the program needs %lu slots with those that it replaces, and hardware "
                     "refuses to remove %lu of before; a later load can do it", slots, kept);
}

static bool open_forwarding(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    for (size_t i = 0; i < program->vip_count; i++)
        if (!forward_open(&dataplane->forwarding[forward_number(program->vips[i].forward)], &dataplane->flow,
                          &dataplane->budgets, program->vips[i].forward, fault))
            return fault_about(fault, "vip", program->vips[i].name);
    return true;
}

/* A service beside the running one, if there is one: its entry of the classifier gets the other level. */
static struct service *build_one(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                                 struct fault *fault)
{
    const struct service *service = dataplane_find(dataplane, vip);
    uint32_t high = vip->probe != NULL ? PRIORITY_PROBE_HIGH : PRIORITY_HIGH;
    uint32_t low = vip->probe != NULL ? PRIORITY_PROBE_LOW : PRIORITY_LOW;
    uint32_t level = service == NULL || service->priority == low ? high : low;

    if (leftover_find(dataplane, vip, level) != NULL) {
        (void)fault_set(fault, "hardware refuses to remove the entry that the VIP had before; a later load can do it");
        return NULL;
    }
    return service_build(dataplane, program, vip, level, fault);
}

/* For VIPs that are new or cannot change in place: built[i] is that of VIP i. */
static bool build(struct dataplane *dataplane, const struct program *program, struct service **built,
                  struct fault *fault)
{
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];
        const struct service *service = dataplane_find(dataplane, vip);

        if (service != NULL && service_updatable(service, vip))
            continue;
        built[i] = build_one(dataplane, program, vip, fault);
        if (built[i] == NULL)
            return fault_about(fault, "vip", vip->name);
    }
    return true;
}

static void discard(struct dataplane *dataplane, struct service **built, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (built[i] != NULL)
            leftover_add(dataplane, built[i]); /* packets may have come to it for a moment */
}

/* The new service takes the packets, then the one that had them goes. */
static bool replace(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                    struct service **built, struct fault *fault)
{
    struct service *service = *built, *old;
    struct fault refusal = {0};

    if (!service_attach(dataplane, service, fault))
        return false;
    for (size_t i = 0; i < dataplane->service_count; i++)
        if (service_matches(dataplane->services[i], vip)) {
            old = dataplane->services[i];
            if (!service_inherit_answers(dataplane, service, old, program, fault))
                return false;
            /* An entry of the lower level has no packets any more, also if hardware keeps it. */
            if (!service_detach(dataplane, old, &refusal) && old->priority < service->priority)
                return fault_set(fault, "%s", refusal.text);
            *built = NULL;
            dataplane->replaced++;
            dataplane->services[i] = service;
            leftover_add(dataplane, old);
            return true;
        }
    *built = NULL;
    dataplane->added++;
    dataplane->services[dataplane->service_count++] = service;
    return true;
}

/* What hardware does not update is built anew beside. */
static bool update(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                   struct service **built, struct fault *fault)
{
    struct service *service = dataplane_find(dataplane, vip);
    struct fault refusal = {0};

    if (service_update(dataplane, service, program, vip, &refusal))
        return true;
    if (service->refused) {
        *built = build_one(dataplane, program, vip, fault);
        if (*built != NULL)
            return replace(dataplane, program, vip, built, fault);
    }
    return fault_set(fault, "%s", refusal.text);
}

static bool is_wanted(const struct service *service, const struct program *program)
{
    bool wanted = false;

    for (size_t v = 0; v < program->vip_count && !wanted; v++)
        wanted = service_matches(service, &program->vips[v]);
    return wanted;
}

/* Answers of a backend that moves from one VIP to another come from the new one. */
static bool yield_answers(struct dataplane *dataplane, const struct program *program, struct service *leaving,
                          struct service *const *built, struct fault *fault)
{
    bool done = true;

    for (size_t i = 0; i < dataplane->service_count && done; i++)
        if (is_wanted(dataplane->services[i], program))
            done = service_yield_answers(dataplane, leaving, dataplane->services[i], fault);
    for (size_t i = 0; i < program->vip_count && done; i++)
        if (built[i] != NULL)
            done = service_yield_answers(dataplane, leaving, built[i], fault);
    return done || fault_about(fault, "vip", leaving->name);
}

static bool yield_leftovers(struct dataplane *dataplane, const struct program *program, struct service *const *built,
                            struct fault *fault)
{
    bool done = true;

    for (struct service *left = dataplane->leftovers; left != NULL && done; left = left->next)
        done = yield_answers(dataplane, program, left, built, fault);
    return done;
}

/* Of VIPs that the program does not have. What is behind stays for now: adding one entry undoes it. */
static bool detach_others(struct dataplane *dataplane, const struct program *program, struct service *const *built,
                          struct fault *fault)
{
    for (size_t i = 0; i < dataplane->service_count; i++) {
        struct service *service = dataplane->services[i];

        if (is_wanted(service, program))
            continue;
        if (leftover_find(dataplane, service->vip, 0) != NULL)
            (void)fault_set(fault, "hardware refuses to remove an entry that the VIP had before; a later load can do it");
        else if (service_detach(dataplane, service, fault)) {
            if (!yield_answers(dataplane, program, service, built, fault))
                return false;
            continue;
        }
        return fault_about(fault, "vip", service->name);
    }
    return true;
}

/* In which order VIPs change: first what additions alone undo. A new one, or one that takes over by the upper level, can
 * only be undone by a removal, which hardware may refuse. */
enum pass { PASS_UPDATE, PASS_REPLACE_UPPER, PASS_REPLACE_LOWER, PASS_NEW, PASSES };

static enum pass pass_of(const struct dataplane *dataplane, const struct vip *vip, const struct service *built)
{
    const struct service *service = dataplane_find(dataplane, vip);

    if (built == NULL)
        return PASS_UPDATE;
    if (service == NULL)
        return PASS_NEW;
    return service->priority < built->priority ? PASS_REPLACE_UPPER : PASS_REPLACE_LOWER;
}

static bool change_vips(struct dataplane *dataplane, const struct program *program, struct service **built,
                        struct fault *fault)
{
    for (enum pass pass = PASS_UPDATE; pass < PASSES; pass++)
        for (size_t i = 0; i < program->vip_count; i++) {
            const struct vip *vip = &program->vips[i];

            if (pass_of(dataplane, vip, built[i]) != pass)
                continue;
            if (!(pass == PASS_UPDATE ? update : replace)(dataplane, program, vip, &built[i], fault))
                return fault_about(fault, "vip", vip->name);
        }
    return true;
}

static bool switch_over(struct dataplane *dataplane, const struct program *program, struct service **built,
                        struct fault *fault)
{
    /* Backends answer from new addresses as soon as queries go there. */
    for (size_t i = 0; i < program->vip_count; i++)
        if (built[i] == NULL && !service_sync_answers(dataplane, dataplane_find(dataplane, &program->vips[i]), program,
                                                        &program->vips[i], fault))
            return fault_about(fault, "vip", program->vips[i].name);
    if (!detach_others(dataplane, program, built, fault) || !targets_update(dataplane, program, fault))
        return false;
    for (size_t i = 0; i < program->vip_count && dataplane->targets_superseded > 0; i++)
        if (built[i] != NULL && !service_refresh(dataplane, built[i], program, fault))
            return fault_about(fault, "vip", program->vips[i].name);
    return yield_leftovers(dataplane, program, built, fault) && change_vips(dataplane, program, built, fault) &&
           yield_leftovers(dataplane, program, built, fault); /* those that were replaced */
}

static void remove_others(struct dataplane *dataplane, const struct program *program)
{
    for (size_t i = dataplane->service_count; i-- > 0;) {
        struct service *service = dataplane->services[i];

        if (is_wanted(service, program))
            continue;
        dataplane->removed++;
        dataplane->services[i] = dataplane->services[--dataplane->service_count];
        leftover_add(dataplane, service);
    }
    targets_prune(dataplane);
}

/* What a load that failed left under way, and what hardware did not let go. */
static void finish_removals(struct dataplane *dataplane)
{
    struct fault ignored = {0};

    for (unsigned i = 0; i < PORTS; i++)
        (void)flow_wait(&dataplane->flow.ports[i], &ignored);
    leftovers_retry(dataplane);
}

bool dataplane_check(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    finish_removals(dataplane);
    return check_constants(dataplane, program, fault) && check_room(dataplane, program, fault) &&
           leftovers_check(dataplane, fault);
}

/* First all that can fail without a packet noticing: pipes, tunnels and whole services beside the running ones. Then
 * packets move, and what is not needed any more goes. */
bool dataplane_apply(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    struct service **built, **services;
    bool done;

    dataplane->added = dataplane->replaced = dataplane->removed = 0;
    dataplane->slots_updated = dataplane->targets_updated = dataplane->targets_superseded = 0;
    dataplane->generation++;
    finish_removals(dataplane);
    built = calloc(program->vip_count + 1, sizeof(struct service *));
    services = realloc(dataplane->services,
                       (dataplane->service_count + program->vip_count + 1) * sizeof(struct service *));
    if (services != NULL)
        dataplane->services = services;
    if (built == NULL || services == NULL) {
        free(built);
        return fault_set(fault, "no memory for the program's VIPs");
    }
    done = open_forwarding(dataplane, program, fault) && targets_add(dataplane, program, fault) &&
           build(dataplane, program, built, fault) && switch_over(dataplane, program, built, fault);
    if (done)
        remove_others(dataplane, program);
    discard(dataplane, built, program->vip_count);
    free(built);
    return done && leftovers_check(dataplane, fault);
}
