/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and meters of pipes and entries. */
#include <string.h>

#include "objects.h"
#include "scratch.h"

static doca_error_t pick_counter(struct doca_flow_port *port, const struct doca_flow_monitor *pipe,
                                 const struct doca_flow_monitor *entry, struct watch *watch)
{
    enum doca_flow_resource_type type = DOCA_FLOW_RESOURCE_TYPE_NONE;
    uint32_t id = UINT32_MAX;
    doca_error_t result;

    if (pipe != NULL && pipe->counter_type != DOCA_FLOW_RESOURCE_TYPE_NONE) {
        type = pipe->counter_type;
        id = pipe->shared_counter.shared_counter_id;
    }
    if (entry != NULL && entry->counter_type != DOCA_FLOW_RESOURCE_TYPE_NONE)
        type = entry->counter_type;
    if (type == DOCA_FLOW_RESOURCE_TYPE_NONE)
        return DOCA_SUCCESS;
    if (type == DOCA_FLOW_RESOURCE_TYPE_NON_SHARED) {
        result = budget_take(port, DOCA_FLOW_RESOURCE_COUNTER);
        watch->own_counter = result == DOCA_SUCCESS;
        return result;
    }
    if (id == UINT32_MAX && entry != NULL)
        id = entry->shared_counter.shared_counter_id;
    watch->shared_counter = shared_find(port, DOCA_FLOW_SHARED_RESOURCE_COUNTER, id);
    return watch->shared_counter != NULL ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
}

static doca_error_t pick_meter(struct doca_flow_port *port, const struct doca_flow_monitor *pipe,
                               const struct doca_flow_monitor *entry, struct watch *watch)
{
    const struct doca_flow_monitor *from = pipe;
    struct doca_flow_resource_meter_cfg cfg = {.alg = DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697};
    uint32_t id;
    doca_error_t result;

    if (from == NULL || from->meter_type == DOCA_FLOW_RESOURCE_TYPE_NONE)
        from = entry;
    if (from == NULL || from->meter_type == DOCA_FLOW_RESOURCE_TYPE_NONE)
        return DOCA_SUCCESS;
    if (from->meter_type == DOCA_FLOW_RESOURCE_TYPE_SHARED) {
        id = from->shared_meter.shared_meter_id;
        if (id == UINT32_MAX && entry != NULL)
            id = entry->shared_meter.shared_meter_id;
        watch->shared_meter = shared_find(port, DOCA_FLOW_SHARED_RESOURCE_METER, id);
        return watch->shared_meter != NULL ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    }
    cfg.limit_type = from->non_shared_meter.limit_type;
    cfg.cir = from->non_shared_meter.cir;
    cfg.cbs = from->non_shared_meter.cbs;
    if (cfg.cir == UINT64_MAX && entry != NULL)
        cfg.cir = entry->non_shared_meter.cir;
    if (cfg.cbs == UINT64_MAX && entry != NULL)
        cfg.cbs = entry->non_shared_meter.cbs;
    if (cfg.cir == UINT64_MAX || cfg.cbs == UINT64_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "no meter rate: the pipe leaves it to the entry, which brings none");
    result = budget_take(port, DOCA_FLOW_RESOURCE_METER);
    watch->own_meter = result == DOCA_SUCCESS;
    if (watch->own_meter)
        meter_setup(&watch->meter, &cfg);
    return result;
}

doca_error_t watch_create(struct doca_flow_port *port, const struct doca_flow_monitor *pipe,
                          const struct doca_flow_monitor *entry, struct watch *watch)
{
    doca_error_t result;

    memset(watch, 0, sizeof(*watch));
    if (pipe != NULL)
        watch->aging_sec = pipe->aging_sec;
    if (entry != NULL && (watch->aging_sec == UINT32_MAX || watch->aging_sec == 0))
        watch->aging_sec = entry->aging_sec;
    result = pick_counter(port, pipe, entry, watch);
    if (result == DOCA_SUCCESS)
        result = pick_meter(port, pipe, entry, watch);
    if (result != DOCA_SUCCESS)
        watch_clear(port, watch);
    return result;
}

void watch_clear(struct doca_flow_port *port, struct watch *watch)
{
    if (watch->own_counter)
        budget_give(port, DOCA_FLOW_RESOURCE_COUNTER);
    if (watch->own_meter)
        budget_give(port, DOCA_FLOW_RESOURCE_METER);
    memset(watch, 0, sizeof(*watch));
}

bool watch_packet(struct watch *watch, struct packet *packet)
{
    struct meter *meter = watch->own_meter ? &watch->meter : NULL;

    if (watch->own_counter)
        counter_add(&watch->counter, packet->length);
    if (watch->shared_counter != NULL)
        counter_add(&watch->shared_counter->counter, packet->length);
    if (watch->shared_meter != NULL)
        meter = &watch->shared_meter->meter;
    if (meter == NULL || !meter->configured)
        return false;
    packet->parser.meter_color = meter_color(meter, packet->length);
    scratch_clobber(packet, SCRATCH_COLOR);
    return watch->own_meter && packet->parser.meter_color == DOCA_FLOW_METER_COLOR_RED;
}
