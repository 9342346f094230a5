/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: configuration, start and stop, and the pipes that a port has. */
#include <stdlib.h>
#include <string.h>

#include "dev.h"
#include "objects.h"

static doca_error_t no_cfg(const char *call)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "port_cfg_%s without a configuration or a value", call);
}

doca_error_t doca_flow_port_cfg_create(struct doca_flow_port_cfg **cfg)
{
    if (cfg == NULL)
        return no_cfg("create");
    *cfg = calloc(1, sizeof(**cfg));
    return *cfg != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a port configuration");
}

doca_error_t doca_flow_port_cfg_destroy(struct doca_flow_port_cfg *cfg)
{
    if (cfg == NULL)
        return no_cfg("destroy");
    free(cfg);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_port_id(struct doca_flow_port_cfg *cfg, uint16_t port_id)
{
    if (cfg == NULL)
        return no_cfg("set_port_id");
    if (port_id >= PORTS_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port id %u; the model has ports 0 to %d", port_id, PORTS_MAX - 1);
    cfg->id = port_id;
    cfg->has_id = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_dev(struct doca_flow_port_cfg *cfg, struct doca_dev *dev)
{
    if (cfg == NULL || dev == NULL)
        return no_cfg("set_dev");
    cfg->dev = dev;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_dev_rep(struct doca_flow_port_cfg *cfg, struct doca_dev_rep *dev_rep)
{
    if (cfg == NULL || dev_rep == NULL)
        return no_cfg("set_dev_rep");
    cfg->rep = dev_rep;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_devargs(struct doca_flow_port_cfg *cfg, const char *devargs)
{
    return cfg != NULL && devargs != NULL ? DOCA_SUCCESS : no_cfg("set_devargs");
}

doca_error_t doca_flow_port_cfg_set_operation_state(struct doca_flow_port_cfg *cfg,
                                                    enum doca_flow_port_operation_state state)
{
    if (cfg == NULL || (unsigned)state > DOCA_FLOW_PORT_OPERATION_STATE_UNCONNECTED)
        return no_cfg("set_operation_state");
    cfg->state = state;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_actions_mem_size(struct doca_flow_port_cfg *cfg, uint32_t size)
{
    if (cfg == NULL)
        return no_cfg("set_actions_mem_size");
    if (size != 0 && (size < 64 || (size & (size - 1)) != 0))
        return refuse(DOCA_ERROR_INVALID_VALUE, "actions_mem_size %u; a power of two from 64 on", size);
    cfg->actions_mem_size = size;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_nr_resources(struct doca_flow_port_cfg *cfg, enum doca_flow_resource type,
                                                 uint32_t nr_resources)
{
    if (cfg == NULL || (unsigned)type >= RESOURCE_KINDS)
        return no_cfg("set_nr_resources");
    cfg->budget[type] = nr_resources;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_cfg_set_service_threads_cycle(struct doca_flow_port_cfg *cfg, uint32_t cycle_ms)
{
    (void)cycle_ms; /* the model's counters are always fresh */
    return cfg != NULL ? DOCA_SUCCESS : no_cfg("set_service_threads_cycle");
}

struct doca_flow_port *port_find(uint16_t id)
{
    return id < PORTS_MAX ? model.ports[id] : NULL;
}

static doca_error_t check_start(const struct doca_flow_port_cfg *cfg)
{
    if (!model.running)
        return refuse(DOCA_ERROR_NOT_PERMITTED, "port_start before doca_flow_init");
    if (!cfg->has_id)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_start without a port id");
    if (cfg->dev == NULL && cfg->rep == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_start of port %u without a device or a representor", cfg->id);
    if (cfg->rep != NULL && !model.cfg.switch_mode)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_start of port %u with a representor in vnf mode", cfg->id);
    if (model.ports[cfg->id] != NULL)
        return refuse(DOCA_ERROR_ALREADY_EXIST, "port_start of port %u, which is running", cfg->id);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_start(const struct doca_flow_port_cfg *cfg, struct doca_flow_port **port)
{
    struct doca_flow_port *new = NULL;
    doca_error_t result;

    if (cfg == NULL || port == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_start without a configuration or a place for the port");
    model_lock();
    result = check_start(cfg);
    if (result != DOCA_SUCCESS)
        goto unlock;
    result = DOCA_ERROR_NO_MEMORY;
    new = calloc(1, sizeof(*new));
    if (new == NULL)
        goto unlock;
    new->cfg = *cfg;
    new->queues = calloc(model.cfg.queues, sizeof(*new->queues));
    if (new->queues == NULL)
        goto release;
    for (uint16_t i = 0; i < model.cfg.queues; i++)
        new->queues[i].last = &new->queues[i].first;
    model.ports[cfg->id] = new;
    model.port_count++;
    *port = new;
    result = DOCA_SUCCESS;
    goto unlock;

release:
    free(new->queues);
    free(new);
    new = NULL;
unlock:
    model_unlock();
    if (new != NULL)
        endpoint_attach_configured(new);
    return result;
}

doca_error_t doca_flow_port_stop(struct doca_flow_port *port)
{
    if (port == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_stop without a port");
    endpoint_close(port); /* without the lock: it waits for the thread that may wait for the lock */
    model_lock();
    for (struct doca_flow_pipe *pipe = port->pipes; pipe != NULL; pipe = pipe->next)
        pipe->destroying = true;
    pipes_destroy_marked();
    model.ports[port->cfg.id] = NULL;
    for (unsigned i = 0; i < PORTS_MAX; i++)
        if (model.ports[i] != NULL && model.ports[i]->pair == port)
            model.ports[i]->pair = NULL;
    model.port_count--;
    shared_clear(&port->shared);
    free(port->queues);
    free(port);
    model_unlock();
    return DOCA_SUCCESS;
}

void doca_flow_port_pipes_flush(struct doca_flow_port *port)
{
    if (port == NULL)
        return;
    model_lock();
    for (struct doca_flow_pipe *pipe = port->pipes; pipe != NULL; pipe = pipe->next)
        pipe->destroying = true;
    pipes_destroy_marked();
    model_unlock();
}

doca_error_t doca_flow_port_pair(struct doca_flow_port *port, struct doca_flow_port *pair_port)
{
    if (port == NULL || pair_port == NULL || port == pair_port)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_pair without two different ports");
    model_lock();
    port->pair = pair_port;
    pair_port->pair = port;
    model_unlock();
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_operation_state_modify(struct doca_flow_port *port,
                                                   enum doca_flow_port_operation_state state)
{
    if (port == NULL || (unsigned)state > DOCA_FLOW_PORT_OPERATION_STATE_UNCONNECTED)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_operation_state_modify without a port or a state");
    if (state != DOCA_FLOW_PORT_OPERATION_STATE_ACTIVE)
        return unproven("a port that is not active; the model has only active ones");
    return DOCA_SUCCESS;
}

/* The manager: the port with the device itself that this port represents something of, or the first one. */
struct doca_flow_port *doca_flow_port_switch_get(const struct doca_flow_port *port)
{
    const struct doca_dev *dev = NULL;
    struct doca_flow_port *found = NULL;

    model_lock();
    if (port != NULL)
        dev = port->cfg.rep != NULL ? rep_dev(port->cfg.rep) : port->cfg.dev;
    for (unsigned i = 0; i < PORTS_MAX && found == NULL && model.cfg.switch_mode; i++)
        if (model.ports[i] != NULL && model.ports[i]->cfg.rep == NULL &&
            (dev == NULL || model.ports[i]->cfg.dev == dev))
            found = model.ports[i];
    model_unlock();
    return found;
}

doca_error_t doca_flow_port_calc_entropy(struct doca_flow_port *port, struct doca_flow_entropy_format *header,
                                         uint16_t *entropy)
{
    (void)port;
    (void)header;
    (void)entropy;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "port_calc_entropy; the hardware's function is not public");
}
