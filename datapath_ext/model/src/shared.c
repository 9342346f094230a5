/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"

static const char *const resource_names[RESOURCE_KINDS] = {"meter", "counter", "RSS",     "PSP",
                                                                   "encap", "decap",   "IPsec SA"};

doca_error_t budget_take(struct doca_flow_port *port, enum doca_flow_resource type)
{
    bool by_port = model.cfg.resource_mode == DOCA_FLOW_RESOURCE_MODE_PORT;
    uint32_t *used = by_port ? &port->used[type] : &model.used[type];
    uint32_t budget = by_port ? port->cfg.budget[type] : model.cfg.budget[type];

    /* System mode has no budget for these that entries own themselves. */
    if (!by_port && type != DOCA_FLOW_RESOURCE_COUNTER && type != DOCA_FLOW_RESOURCE_METER)
        return DOCA_SUCCESS;
    if (*used >= budget)
        return refuse(DOCA_ERROR_DRIVER, "no %s left: all of the %u reserved %s are in use", resource_names[type],
                      budget, by_port ? "for the port" : "for the library");
    (*used)++;
    return DOCA_SUCCESS;
}

void budget_give(struct doca_flow_port *port, enum doca_flow_resource type)
{
    bool by_port = model.cfg.resource_mode == DOCA_FLOW_RESOURCE_MODE_PORT;
    uint32_t *used = by_port ? &port->used[type] : &model.used[type];

    if (*used > 0)
        (*used)--;
}

/* A slot more, its number in *id; entries keep pointers to slots, so these never move. */
static doca_error_t add_slot(struct shared_table *table, enum doca_flow_shared_resource_type type, uint32_t *id)
{
    struct shared_resource **slots = realloc(table->slots[type], (table->count[type] + 1UL) * sizeof(*slots));
    struct shared_resource *slot = calloc(1, sizeof(*slot));

    if (slots != NULL)
        table->slots[type] = slots;
    if (slots == NULL || slot == NULL) {
        free(slot);
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for shared resources");
    }
    *id = table->count[type];
    slots[table->count[type]++] = slot;
    return DOCA_SUCCESS;
}

struct shared_resource *shared_find(struct doca_flow_port *port, enum doca_flow_shared_resource_type type, uint32_t id)
{
    struct shared_table *table = &port->shared;

    if (id >= table->count[type] || !table->slots[type][id]->configured) {
        (void)refuse(DOCA_ERROR_INVALID_VALUE, "shared %s %u is not configured", resource_names[type], id);
        return NULL;
    }
    return table->slots[type][id];
}

doca_error_t shared_encap(struct doca_flow_port *port, uint32_t id, struct encap_header *header)
{
    const struct shared_resource *resource = shared_find(port, DOCA_FLOW_SHARED_RESOURCE_ENCAP, id);

    return resource != NULL ? encap_build(&resource->cfg.encap_cfg, NULL, header) : DOCA_ERROR_INVALID_VALUE;
}

void shared_clear(struct shared_table *table)
{
    for (unsigned type = 0; type < SHARED_RESOURCE_KINDS; type++) {
        for (uint32_t id = 0; id < table->count[type]; id++)
            free(table->slots[type][id]);
        free(table->slots[type]);
    }
    memset(table, 0, sizeof(*table));
}

static doca_error_t check_type(enum doca_flow_shared_resource_type type)
{
    if ((unsigned)type >= SHARED_RESOURCE_KINDS)
        return refuse(DOCA_ERROR_INVALID_VALUE, "shared resource type %u", (unsigned)type);
    if (type != DOCA_FLOW_SHARED_RESOURCE_METER && type != DOCA_FLOW_SHARED_RESOURCE_COUNTER &&
        type != DOCA_FLOW_SHARED_RESOURCE_ENCAP)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "shared %s; the model shares meters, counters and encaps",
                      resource_names[type]);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_shared_resource_get(struct doca_flow_port *port, enum doca_flow_shared_resource_type type,
                                                uint32_t *id)
{
    doca_error_t result;

    if (port == NULL || id == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_shared_resource_get without a port or a place for the id");
    model_lock();
    result = check_type(type);
    if (result == DOCA_SUCCESS && model.cfg.resource_mode != DOCA_FLOW_RESOURCE_MODE_PORT)
        result = refuse(DOCA_ERROR_NOT_SUPPORTED, "port_shared_resource_get needs the resource mode PORT");
    if (result == DOCA_SUCCESS && budget_take(port, (enum doca_flow_resource)type) != DOCA_SUCCESS)
        result = DOCA_ERROR_EMPTY; /* the code that the header lists; the reason is set */
    if (result == DOCA_SUCCESS) {
        result = add_slot(&port->shared, type, id);
        if (result != DOCA_SUCCESS)
            budget_give(port, (enum doca_flow_resource)type);
    }
    model_unlock();
    return result;
}

doca_error_t doca_flow_port_shared_resource_set_cfg(struct doca_flow_port *port,
                                                    enum doca_flow_shared_resource_type type, uint32_t id,
                                                    struct doca_flow_shared_resource_cfg *cfg)
{
    doca_error_t result;

    if (port == NULL || cfg == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_shared_resource_set_cfg without a port or a configuration");
    model_lock();
    result = check_type(type);
    if (result == DOCA_SUCCESS && id >= port->shared.count[type])
        result = refuse(DOCA_ERROR_INVALID_VALUE, "shared %s %u was not taken", resource_names[type], id);
    if (result == DOCA_SUCCESS && type == DOCA_FLOW_SHARED_RESOURCE_METER &&
        cfg->meter_cfg.alg != DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697)
        result = refuse(DOCA_ERROR_NOT_SUPPORTED, "shared meter %u of algorithm %d; the model has RFC 2697", id,
                        (int)cfg->meter_cfg.alg);
    if (result == DOCA_SUCCESS) {
        struct shared_resource *slot = port->shared.slots[type][id];

        slot->cfg = *cfg;
        if (type == DOCA_FLOW_SHARED_RESOURCE_METER)
            meter_setup(&slot->meter, &cfg->meter_cfg);
        slot->configured = true;
    }
    model_unlock();
    return result;
}

static doca_error_t query(const struct shared_table *table, enum doca_flow_shared_resource_type type,
                          const uint32_t *ids, struct doca_flow_resource_query *results, uint32_t count)
{
    doca_error_t result = check_type(type);

    if (result == DOCA_SUCCESS && type != DOCA_FLOW_SHARED_RESOURCE_COUNTER)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "query of shared %s; only counters have values",
                        resource_names[type]);
    for (uint32_t i = 0; i < count && result == DOCA_SUCCESS; i++) {
        if (ids[i] >= table->count[type] || !table->slots[type][ids[i]]->configured)
            result = refuse(DOCA_ERROR_INVALID_VALUE, "shared counter %u is not configured", ids[i]);
        else
            counter_query(&table->slots[type][ids[i]]->counter, &results[i]);
    }
    return result;
}

doca_error_t doca_flow_port_shared_resources_query(struct doca_flow_port *port,
                                                   enum doca_flow_shared_resource_type type, uint32_t *ids,
                                                   struct doca_flow_resource_query *results, uint32_t count)
{
    doca_error_t result;

    if (port == NULL || ids == NULL || results == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_shared_resources_query without a port, ids or results");
    model_lock();
    result = query(&port->shared, type, ids, results, count);
    model_unlock();
    return result;
}
