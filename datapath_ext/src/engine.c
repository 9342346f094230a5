/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <string.h>

#include "leftover.h"
#include "log.h"

enum { UNDO_TRIES = 3 }; /* what hardware refuses by chance it does not refuse each time */

bool engine_open(struct engine *engine, struct program *program, struct fault *fault)
{
    memset(engine, 0, sizeof(*engine));
    engine->program = program;
    if (!dataplane_open(&engine->dataplane, program, fault)) {
        program_free(program);
        engine->program = NULL;
        return false;
    }
    if (!dataplane_check(&engine->dataplane, program, fault) || !dataplane_apply(&engine->dataplane, program, fault)) {
        engine_close(engine);
        return false;
    }
    for (unsigned i = 0; i < PORTS; i++)
        engine->present[i] = true;
    engine->consistent = true;
    engine->loads = 1;
    (void)clock_gettime(CLOCK_MONOTONIC, &engine->started);
    engine->loaded = engine->started;
    log_event(LOG_INFO, "started", "{s:s, s:s, s:i}", "in", program->in, "out", program->out, "vips",
              (int)program->listed);
    return true;
}

/* Frees held programs that nothing points into any more: all, once hardware has followed another one as a whole. */
static void free_retained(struct engine *engine)
{
    struct program **link = &engine->retained;

    while (*link != NULL) {
        struct program *program = *link;

        if (dataplane_uses(&engine->dataplane, program)) {
            link = &program->next;
            continue;
        }
        *link = program->next;
        program_free(program);
    }
}

void engine_close(struct engine *engine)
{
    dataplane_close(&engine->dataplane);
    program_free(engine->program);
    free_retained(engine);
    memset(engine, 0, sizeof(*engine));
}

/* The ports' programs would not serve anyone, and hardware calls on them are not to be trusted. */
static bool check_ports(const struct engine *engine, const struct program *program, struct fault *fault)
{
    for (unsigned i = 0; i < PORTS; i++)
        if (!engine->present[i])
            return fault_set(fault, "port %s is gone: vip %s%s not served; a restart opens it again",
                             engine->dataplane.flow.ports[i].name,
                             program->vip_count > 0 ? program->vips[0].name : "(none)",
                             program->vip_count > 1 ? " and all others are" : " is");
    return true;
}

static void log_load(const struct dataplane *dataplane, const struct program *program)
{
    log_event(LOG_INFO, "loaded", "{s:i, s:i, s:i, s:i, s:i, s:i}", "vips", (int)program->listed, "added",
              (int)dataplane->added, "replaced", (int)dataplane->replaced, "removed", (int)dataplane->removed,
              "slots_updated", (int)dataplane->slots_updated, "backends_updated", (int)dataplane->targets_updated);
    if (leftovers_entries(dataplane) > 0)
        log_event(LOG_WARNING, "not_removed", "{s:i}", "entries", (int)leftovers_entries(dataplane));
}

void engine_refuse(struct engine *engine, const struct fault *fault)
{
    engine->refused++;
    log_event(LOG_ERROR, "refused", "{s:s}", "error", fault->text);
}

bool engine_load(struct engine *engine, struct program *program, struct fault *fault)
{
    struct fault undoing;

    engine_check_ports(engine);
    if (!check_ports(engine, program, fault) || !dataplane_check(&engine->dataplane, program, fault)) {
        engine_refuse(engine, fault);
        program_free(program);
        return false;
    }
    if (dataplane_apply(&engine->dataplane, program, fault)) {
        program_free(engine->program);
        free_retained(engine);
        engine->program = program;
        engine->consistent = true;
        engine->draining = false;
        engine->loads++;
        (void)clock_gettime(CLOCK_MONOTONIC, &engine->loaded);
        log_load(&engine->dataplane, program);
        return true;
    }
    engine_refuse(engine, fault);
    program->next = engine->retained; /* services may point into it until it is undone */
    engine->retained = program;
    engine->consistent = false;
    for (unsigned i = 0; i < UNDO_TRIES && !engine->consistent; i++) {
        undoing = (struct fault){0};
        engine->consistent = dataplane_apply(&engine->dataplane, engine->program, &undoing);
    }
    free_retained(engine);
    if (!engine->consistent)
        log_event(LOG_ERROR, "not_undone", "{s:s}", "error", undoing.text);
    return false;
}

/* In every VIP, slots of the backend become those of the next slot's backend that is another one. */
static bool drain_vip(json_t *slots, const char *backend, unsigned *moved)
{
    size_t count = json_array_size(slots);
    json_t *next = NULL;

    /* From the end, twice: the first slots are the next ones of the last. */
    for (size_t i = 2 * count; i-- > 0;) {
        json_t *slot = json_array_get(slots, i % count);

        if (strcmp(json_string_value(slot), backend) != 0) {
            next = slot;
            continue;
        }
        if (i >= count)
            continue;
        if (next == NULL || json_array_set(slots, i, next) != 0)
            return false;
        (*moved)++;
    }
    return true;
}

bool engine_drain(struct engine *engine, const char *backend, unsigned *slots, struct fault *fault)
{
    bool known = false, drained = true;
    struct program *program;
    json_t *copy, *vip;
    size_t i;

    *slots = 0;
    for (size_t b = 0; b < engine->program->backend_count && !known; b++)
        known = strcmp(engine->program->backends[b].name, backend) == 0;
    if (!known)
        return fault_set(fault, "drain: there is no backend %s", backend);
    copy = json_deep_copy(engine->program->source);
    if (copy == NULL)
        return fault_set(fault, "no memory for a program");
    json_array_foreach(json_object_get(copy, "vips"), i, vip)
        if (drained && !drain_vip(json_object_get(vip, "slots"), backend, slots)) {
            drained = false;
            (void)fault_set(fault, "drain: backend %s is the only one of vip %s", backend,
                            json_string_value(json_object_get(vip, "name")));
        }
    program = drained ? program_read(copy, fault) : NULL;
    json_decref(copy);
    if (program == NULL || !engine_load(engine, program, fault))
        return false;
    engine->draining = true;
    return true;
}

void engine_retry_removals(struct engine *engine)
{
    unsigned before = leftovers_entries(&engine->dataplane);

    if (before == 0 || !engine->present[PORT_IN] || !engine->present[PORT_OUT])
        return;
    leftovers_retry(&engine->dataplane);
    if (leftovers_entries(&engine->dataplane) == 0)
        log_event(LOG_INFO, "removed_late", "{s:i}", "entries", (int)before);
}

void engine_check_ports(struct engine *engine)
{
    for (unsigned i = 0; i < PORTS; i++) {
        const struct flow_port *port = &engine->dataplane.flow.ports[i];

        if (!engine->present[i] || flow_port_present(port))
            continue;
        engine->present[i] = false; /* the library's port does not come back with the device */
        log_event(LOG_ERROR, "port_gone", "{s:s, s:i, s:s}", "port", port->name, "vips_not_served",
                  (int)engine->program->listed, "first_vip",
                  engine->program->vip_count > 0 ? engine->program->vips[0].name : "");
    }
}
