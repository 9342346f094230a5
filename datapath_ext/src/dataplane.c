#include "dataplane.h"

#include <stdlib.h>
#include <string.h>

#include "service.h"

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
    while (dataplane->undeleted != NULL) {
        struct service *service = dataplane->undeleted;

        dataplane->undeleted = service->next;
        service_forget(service);
    }
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
    for (const struct service *service = dataplane->undeleted; service != NULL && !used; service = service->next)
        used = is_of(service, program);
    return used;
}

static struct service *find_service(const struct dataplane *dataplane, const struct vip *vip)
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

/* A VIP that does not change in place is there twice until the new one has taken over. */
static bool check_room(const struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    unsigned long slots = 0, counters = COUNTERS_OWN;

    for (size_t i = 0; i < dataplane->service_count; i++) {
        slots += dataplane->services[i]->slot_count;
        counters += dataplane->services[i]->slot_count;
    }
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];
        const struct service *service = find_service(dataplane, vip);

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
    return true;
}

static bool open_forwarding(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    for (size_t i = 0; i < program->vip_count; i++)
        if (!forward_open(&dataplane->forwarding[forward_number(program->vips[i].forward)], &dataplane->flow,
                          &dataplane->budgets, program->vips[i].forward, fault))
            return fault_about(fault, "vip", program->vips[i].name);
    return true;
}

/* Services beside the running ones, for VIPs that are new or cannot change in place: built[i] is that of VIP i. */
static bool build(struct dataplane *dataplane, const struct program *program, struct service **built,
                  struct fault *fault)
{
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];
        const struct service *service = find_service(dataplane, vip);
        uint32_t high = vip->probe != NULL ? PRIORITY_PROBE_HIGH : PRIORITY_HIGH;
        uint32_t low = vip->probe != NULL ? PRIORITY_PROBE_LOW : PRIORITY_LOW;

        if (service != NULL && service_updatable(service, vip))
            continue;
        built[i] = service_build(dataplane, program, vip, service == NULL || service->priority == low ? high : low,
                                 fault);
        if (built[i] == NULL)
            return fault_about(fault, "vip", vip->name);
    }
    return true;
}

static void discard(struct dataplane *dataplane, struct service **built, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fault ignored = {0};

        if (built[i] == NULL)
            continue;
        if (service_detach(dataplane, built[i], &ignored)) {
            /* Packets may have come to it for a moment. */
            (void)service_remove(dataplane, built[i], find_service(dataplane, built[i]->vip), &ignored);
        } else { /* it may have packets; the next load tries again */
            built[i]->next = dataplane->undeleted;
            dataplane->undeleted = built[i];
        }
    }
}

static bool remove_undeleted(struct dataplane *dataplane, struct fault *fault)
{
    while (dataplane->undeleted != NULL) {
        struct service *service = dataplane->undeleted;

        if (!service_detach(dataplane, service, fault))
            return fault_about(fault, "vip", service->vip->name);
        dataplane->undeleted = service->next;
        if (!service_remove(dataplane, service, find_service(dataplane, service->vip), fault))
            return false;
    }
    return true;
}

static bool remove_at(struct dataplane *dataplane, size_t number, struct fault *fault)
{
    struct service *service = dataplane->services[number];
    const char *name = service->vip->name;

    if (!service_detach(dataplane, service, fault))
        return fault_about(fault, "vip", name);
    dataplane->services[number] = dataplane->services[--dataplane->service_count];
    return service_remove(dataplane, service, NULL, fault) || fault_about(fault, "vip", name);
}

/* The new service takes the packets, then the one that had them goes. */
static bool replace(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                    struct service **built, struct fault *fault)
{
    struct service *service = *built, *old;

    if (!service_attach(dataplane, service, fault))
        return false;
    for (size_t i = 0; i < dataplane->service_count; i++)
        if (service_matches(dataplane->services[i], vip)) {
            if (!service_inherit_answers(dataplane, service, dataplane->services[i], program, fault) ||
                !service_detach(dataplane, dataplane->services[i], fault))
                return false;
            *built = NULL;
            dataplane->replaced++;
            old = dataplane->services[i];
            dataplane->services[i] = service;
            return service_remove(dataplane, old, service, fault);
        }
    *built = NULL;
    dataplane->added++;
    dataplane->services[dataplane->service_count++] = service;
    return true;
}

static bool switch_over(struct dataplane *dataplane, const struct program *program, struct service **built,
                        struct fault *fault)
{
    /* Backends answer from new addresses as soon as queries go there. */
    for (size_t i = 0; i < program->vip_count; i++)
        if (built[i] == NULL && !service_sync_answers(dataplane, find_service(dataplane, &program->vips[i]), program,
                                                        &program->vips[i], fault))
            return fault_about(fault, "vip", program->vips[i].name);
    if (!targets_update(dataplane, program, fault))
        return false;
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];
        bool done = built[i] != NULL
                        ? replace(dataplane, program, vip, &built[i], fault)
                        : service_update(dataplane, find_service(dataplane, vip), program, vip, fault);

        if (!done)
            return fault_about(fault, "vip", vip->name);
    }
    return true;
}

static bool remove_others(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    bool done = true;

    for (size_t i = dataplane->service_count; i-- > 0;) {
        bool wanted = false;

        for (size_t v = 0; v < program->vip_count && !wanted; v++)
            wanted = service_matches(dataplane->services[i], &program->vips[v]);
        if (wanted)
            continue;
        dataplane->removed++;
        done = remove_at(dataplane, i, fault) && done;
    }
    return targets_prune(dataplane, fault) && done;
}

/* First all that can fail without a packet noticing: pipes, tunnels and whole services beside the running ones. Then
 * packets move, and what is not needed any more goes. */
bool dataplane_apply(struct dataplane *dataplane, const struct program *program, struct fault *fault)
{
    struct service **built, **services;
    bool done;

    dataplane->added = dataplane->replaced = dataplane->removed = 0;
    dataplane->slots_updated = dataplane->targets_updated = 0;
    dataplane->generation++;
    if (!check_constants(dataplane, program, fault) || !check_room(dataplane, program, fault) ||
        !remove_undeleted(dataplane, fault))
        return false;
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
           build(dataplane, program, built, fault) && switch_over(dataplane, program, built, fault) &&
           remove_others(dataplane, program, fault);
    discard(dataplane, built, program->vip_count);
    free(built);
    return done;
}
