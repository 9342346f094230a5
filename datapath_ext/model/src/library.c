/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration and life of the library as a whole. */
#include <doca_log.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

static doca_error_t no_cfg(const char *call)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "cfg_%s without a configuration or a value", call);
}

doca_error_t doca_flow_cfg_create(struct doca_flow_cfg **cfg)
{
    if (cfg == NULL)
        return no_cfg("create");
    *cfg = calloc(1, sizeof(**cfg));
    if (*cfg == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a configuration");
    (*cfg)->queues = 1;
    (*cfg)->queue_depth = QUEUE_DEPTH_DEFAULT;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_destroy(struct doca_flow_cfg *cfg)
{
    if (cfg == NULL)
        return no_cfg("destroy");
    free(cfg);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_pipe_queues(struct doca_flow_cfg *cfg, uint16_t pipe_queues)
{
    if (cfg == NULL || pipe_queues == 0)
        return no_cfg("set_pipe_queues");
    cfg->queues = pipe_queues;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_nr_counters(struct doca_flow_cfg *cfg, uint32_t nr_counters)
{
    if (cfg == NULL)
        return no_cfg("set_nr_counters");
    cfg->budget[DOCA_FLOW_RESOURCE_COUNTER] = nr_counters;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_nr_meters(struct doca_flow_cfg *cfg, uint32_t nr_meters)
{
    if (cfg == NULL)
        return no_cfg("set_nr_meters");
    cfg->budget[DOCA_FLOW_RESOURCE_METER] = nr_meters;
    return DOCA_SUCCESS;
}

/* A mode and options, separated by commas. */
doca_error_t doca_flow_cfg_set_mode_args(struct doca_flow_cfg *cfg, const char *mode_args)
{
    size_t length;

    if (cfg == NULL || mode_args == NULL)
        return no_cfg("set_mode_args");
    length = strcspn(mode_args, ",");
    if (length == 3 && strncmp(mode_args, "vnf", 3) == 0)
        cfg->switch_mode = false;
    else if (length == 6 && strncmp(mode_args, "switch", 6) == 0)
        cfg->switch_mode = true;
    else
        return refuse(DOCA_ERROR_INVALID_VALUE, "mode_args %s; they begin with vnf or switch", mode_args);
    cfg->expert = false;
    for (const char *at = mode_args + length; *at == ','; at += length) {
        static const char *const known[] = {"hws", "expert", "cpds", "isolated", "hairpinq_num"};
        bool found = false;
        size_t key;

        at++;
        length = strcspn(at, ",");
        key = strcspn(at, ",=");
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found = found || (key == strlen(known[i]) && strncmp(at, known[i], key) == 0);
        if (!found)
            note(DOCA_LOG_LEVEL_WARNING, "mode_args %s: the model does not know %.*s", mode_args, (int)length, at);
        cfg->expert = cfg->expert || (key == 6 && strncmp(at, "expert", 6) == 0);
    }
    cfg->mode_set = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_nr_shared_resource(struct doca_flow_cfg *cfg, uint32_t nr_shared_resource,
                                                  enum doca_flow_shared_resource_type type)
{
    if (cfg == NULL || (unsigned)type >= SHARED_RESOURCE_KINDS)
        return no_cfg("set_nr_shared_resource");
    (void)nr_shared_resource; /* the library has none: in PORT mode they are the ports' */
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_queue_depth(struct doca_flow_cfg *cfg, uint32_t queue_depth)
{
    if (cfg == NULL || queue_depth == 0)
        return no_cfg("set_queue_depth");
    cfg->queue_depth = queue_depth;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_cb_pipe_process(struct doca_flow_cfg *cfg, doca_flow_pipe_process_cb cb)
{
    if (cfg == NULL)
        return no_cfg("set_cb_pipe_process");
    cfg->pipe_cb = cb;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_cb_entry_process(struct doca_flow_cfg *cfg, doca_flow_entry_process_cb cb)
{
    if (cfg == NULL)
        return no_cfg("set_cb_entry_process");
    cfg->entry_cb = cb;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_definitions(struct doca_flow_cfg *cfg, const struct doca_flow_definitions *defs)
{
    if (cfg == NULL || defs == NULL)
        return no_cfg("set_definitions");
    return unproven("definitions of own fields; the model does not parse custom headers");
}

doca_error_t doca_flow_cfg_set_resource_mode(struct doca_flow_cfg *cfg, const enum doca_flow_resource_mode mode)
{
    if (cfg == NULL || (unsigned)mode > DOCA_FLOW_RESOURCE_MODE_PORT)
        return no_cfg("set_resource_mode");
    cfg->resource_mode = mode;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_init(struct doca_flow_cfg *cfg)
{
    doca_error_t result = DOCA_SUCCESS;

    if (cfg == NULL)
        return no_cfg("init");
    model_lock();
    if (model.running)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "doca_flow_init a second time without doca_flow_destroy");
    else if (!cfg->mode_set)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "doca_flow_init without mode_args");
    if (result == DOCA_SUCCESS) {
        memset(&model, 0, sizeof(model));
        model.cfg = *cfg;
        model.running = true;
    }
    model_unlock();
    return result;
}

void doca_flow_destroy(void)
{
    model_lock();
    for (unsigned i = PORTS_MAX; i-- > 0;)
        if (model.ports[i] != NULL) {
            struct doca_flow_port *port = model.ports[i];

            model_unlock(); /* stopping waits for the thread of the port's device */
            (void)doca_flow_port_stop(port);
            model_lock();
        }
    memset(&model, 0, sizeof(model));
    model_unlock();
}
