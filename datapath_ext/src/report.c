/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <doca_version.h>
#include <inttypes.h>
#include <stdio.h>

#include "leftover.h"

static json_t *seconds_since(const struct timespec *then)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return json_integer((json_int_t)(now.tv_sec - then->tv_sec));
}

static const char *platform(void)
{
#ifdef DNSTEER_ON_MODEL
    return "software model of DOCA Flow " DOCA_VERSION_STRING;
#else
    return "DOCA " DOCA_VERSION_STRING;
#endif
}

static json_t *ports(const struct engine *engine)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < PORTS; i++)
        (void)json_array_append_new(array, json_pack("{s:s, s:s, s:b}", "name", engine->dataplane.flow.ports[i].name,
                                                     "role", i == PORT_IN ? "in" : "out", "present",
                                                     (int)engine->present[i]));
    return array;
}

/* Of each budget what is taken. */
static json_t *room(const struct dataplane *dataplane)
{
    const struct budgets *budgets = &dataplane->budgets;
    unsigned slots = leftovers_slots(dataplane), targets = 0, vips = 0;
    unsigned long counters;

    for (size_t i = 0; i < dataplane->service_count; i++) {
        slots += dataplane->services[i]->slot_count;
        vips += dataplane->services[i]->vip->probe == NULL;
    }
    for (const struct target *target = dataplane->targets; target != NULL; target = target->next)
        targets++;
    counters = slots + COUNTERS_OWN;
    return json_pack("{s:[i,i], s:[i,i], s:[i,i], s:[i,i]}", "vips", (int)vips, (int)budgets->vips,
                     "slots", (int)slots, (int)budgets->slots, "backends", (int)targets, (int)budgets->backends,
                     "counters", (int)counters, (int)budgets->counters);
}

json_t *report_status(const struct engine *engine)
{
    bool good = engine->consistent && engine->present[PORT_IN] && engine->present[PORT_OUT];

    return json_pack("{s:b, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:o, s:o, s:o, s:o, s:i}", "ok", 1, "state",
                     good ? "running" : "degraded", "platform", platform(), "vips", (int)engine->program->listed,
                     "loads", (int)engine->loads, "refused", (int)engine->refused, "consistent",
                     (int)engine->consistent, "draining", (int)engine->draining, "up_seconds",
                     seconds_since(&engine->started), "loaded_seconds", seconds_since(&engine->loaded), "ports",
                     ports(engine), "used_of_budget", room(&engine->dataplane),
                     "awaiting_removal", (int)leftovers_entries(&engine->dataplane));
}

static json_t *count_vip(struct service *service, struct fault *fault)
{
    json_t *backends;
    uint64_t packets = 0, bytes = 0;

    if (!service_count(service)) {
        (void)fault_set(fault, "vip %s: its counters cannot be read", service->vip->name);
        return NULL;
    }
    backends = json_object();
    for (unsigned i = 0; i < service->counter_count; i++) {
        const struct backend_counter *counter = &service->counters[i];

        packets += counter->packets;
        bytes += counter->bytes;
        (void)json_object_set_new(backends, counter->name,
                                  json_pack("{s:I, s:I}", "packets", (json_int_t)counter->packets, "bytes",
                                            (json_int_t)counter->bytes));
    }
    return json_pack("{s:s, s:I, s:I, s:o}", "name", service->vip->name, "packets", (json_int_t)packets, "bytes",
                     (json_int_t)bytes, "backends", backends);
}

static bool count_drops(const struct classifier *classifier, json_t *object)
{
    for (enum drop_reason reason = DROP_MALFORMED4; reason < DROP_REASONS; reason++) {
        json_int_t before = json_integer_value(json_object_get(object, drop_reason_name(reason)));
        uint64_t packets, bytes;

        if (!count_entry(classifier->drops[reason], &packets, &bytes) ||
            json_object_set_new(object, drop_reason_name(reason), json_integer(before + (json_int_t)packets)) != 0)
            return false;
    }
    return true;
}

/* Packets that a pipe behind the classifier had no entry for: always 0, if the program is right. */
static bool count_missed(const struct dataplane *dataplane, json_int_t *missed)
{
    uint64_t packets = 0;

    for (size_t i = 0; i < FORWARD_MODE_COUNT; i++)
        if (!forward_count_misses(&dataplane->forwarding[i], forward_modes[i], &packets))
            return false;
    *missed = (json_int_t)packets;
    return true;
}

json_t *report_counters(struct engine *engine, struct fault *fault)
{
    struct dataplane *dataplane = &engine->dataplane;
    json_t *vips = json_array(), *in = json_object(), *out = json_object();
    json_int_t missed = 0;

    for (size_t i = 0; i < dataplane->service_count; i++) {
        json_t *vip;

        if (dataplane->services[i]->vip->probe != NULL)
            continue; /* no clients' queries */
        vip = count_vip(dataplane->services[i], fault);
        if (vip == NULL)
            goto release;
        (void)json_array_append_new(vips, vip);
    }
    if (count_drops(&dataplane->queries, in) && count_drops(&dataplane->answers, out) &&
        count_missed(dataplane, &missed))
        return json_pack("{s:b, s:o, s:{s:o, s:o, s:I}}", "ok", 1, "vips", vips, "dropped", "in", in, "out", out,
                         "missed", missed);
    (void)fault_set(fault, "counters of dropped packets cannot be read");

release:
    json_decref(vips);
    json_decref(in);
    json_decref(out);
    return NULL;
}

static json_t *count_slots(struct service *service, struct fault *fault)
{
    json_t *slots;

    if (!service_count(service)) {
        (void)fault_set(fault, "vip %s: its counters cannot be read", service->vip->name);
        return NULL;
    }
    slots = json_array();
    for (unsigned i = 0; i < service->slot_count; i++)
        (void)json_array_append_new(slots, json_integer((json_int_t)service->slots[i].packets));
    return json_pack("{s:s, s:o}", "name", service->vip->name, "slots", slots);
}

json_t *report_slots(struct engine *engine, struct fault *fault)
{
    const struct dataplane *dataplane = &engine->dataplane;
    json_t *vips = json_array();

    for (size_t i = 0; i < dataplane->service_count; i++) {
        json_t *vip;

        if (dataplane->services[i]->vip->probe != NULL)
            continue; /* no clients' queries */
        vip = count_slots(dataplane->services[i], fault);
        if (vip == NULL) {
            json_decref(vips);
            return NULL;
        }
        (void)json_array_append_new(vips, vip);
    }
    return json_pack("{s:b, s:o}", "ok", 1, "vips", vips);
}

static json_t *dump_service(const struct service *service)
{
    json_t *slots = json_array();

    for (unsigned i = 0; i < service->slot_count; i++) {
        const struct slot *slot = &service->slots[i];

        (void)json_array_append_new(slots, service->vip->forward->slot_report(service->counters[slot->counter].name,
                                                                              &slot->content));
    }
    return json_pack("{s:s, s:I, s:i, s:s, s:s, s:o}", "vip", service->vip->name, "id", (json_int_t)service->id,
                     "priority", (int)service->priority, "select", service->vip->select->name, "forward",
                     service->vip->forward->name, "slots", slots);
}

json_t *report_dump(const struct engine *engine)
{
    json_t *services = json_array(), *probes = json_array(), *selectors = json_array(), *targets = json_array();

    for (size_t i = 0; i < engine->dataplane.service_count; i++) {
        const struct service *service = engine->dataplane.services[i];

        (void)json_array_append_new(service->vip->probe != NULL ? probes : services, dump_service(service));
    }
    for (const struct selector *s = engine->dataplane.selectors; s != NULL; s = s->next)
        (void)json_array_append_new(selectors, json_pack("{s:s, s:s, s:i, s:i}", "select", s->key.select->name,
                                                         "forward", s->key.forward->name, "slots",
                                                         (int)s->key.slot_count, "vips", (int)s->users));
    for (const struct target *t = engine->dataplane.targets; t != NULL; t = t->next)
        (void)json_array_append_new(targets, json_pack("{s:s, s:s, s:i, s:i, s:I}", "backend", t->name, "forward",
                                                       t->forward->name, "inner", (int)t->inner, "outer",
                                                       (int)t->outer, "mark", (json_int_t)t->mark));
    return json_pack("{s:b, s:O, s:o, s:o, s:o, s:o}", "ok", 1, "program", engine->program->source, "services", services,
                     "probes", probes, "selectors", selectors, "backends", targets);
}
