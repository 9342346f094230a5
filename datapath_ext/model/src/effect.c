/* SPDX-License-Identifier: Apache-2.0 */
/* What an entry does to its packets: actions, forwarding, counters and meters; and the budgets that these take. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "objects.h"

/* Most public programs reserve what they use, one that encapsulates reserves nothing. */
static doca_error_t take_header(struct doca_flow_port *port, enum doca_flow_resource type, bool *took)
{
    doca_error_t result;

    if (model.cfg.resource_mode == DOCA_FLOW_RESOURCE_MODE_PORT && port->cfg.budget[type] == 0)
        return unproven("%s on a port that reserves none", type == DOCA_FLOW_RESOURCE_ENCAP ? "encap" : "decap");
    result = budget_take(port, type);
    *took = result == DOCA_SUCCESS;
    return result;
}

static doca_error_t take_budgets(struct doca_flow_port *port, struct effect *effect)
{
    doca_error_t result = DOCA_SUCCESS;

    if (effect->actions.own_encap) {
        result = take_header(port, DOCA_FLOW_RESOURCE_ENCAP, &effect->took_encap);
        if (result != DOCA_SUCCESS)
            return result;
    }
    return effect->actions.decap ? take_header(port, DOCA_FLOW_RESOURCE_DECAP, &effect->took_decap) : result;
}

static doca_error_t finish(struct doca_flow_pipe *pipe, const struct doca_flow_monitor *monitor,
                           const struct doca_flow_fwd *fwd, doca_error_t result, struct effect *effect)
{
    struct doca_flow_port *port = pipe->cfg.port;

    if (result == DOCA_SUCCESS)
        result = take_budgets(port, effect);
    if (result == DOCA_SUCCESS)
        result = watch_create(port, pipe->cfg.has_monitor ? &pipe->cfg.monitor : NULL, monitor, &effect->watch);
    if (result == DOCA_SUCCESS)
        result = forward_merge(pipe, fwd, &effect->forward);
    if (result != DOCA_SUCCESS)
        effect_clear(port, effect);
    return result;
}

doca_error_t effect_create(struct doca_flow_pipe *pipe, uint8_t action_idx, const struct doca_flow_actions *actions,
                           const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                           struct effect *effect)
{
    doca_error_t result = DOCA_SUCCESS;

    memset(effect, 0, sizeof(*effect));
    if (pipe->cfg.template_count > 0) {
        if (action_idx >= pipe->cfg.template_count)
            return refuse(DOCA_ERROR_INVALID_VALUE, "action_idx %u; pipe %s has %zu action templates", action_idx,
                          pipe->cfg.name, pipe->cfg.template_count);
        result = actions_compile(&pipe->cfg.templates[action_idx], COMPILE_ENTRY, actions, pipe->cfg.port,
                              &effect->actions);
    } else if (actions != NULL && !bytes_are(&actions->outer, sizeof(actions->outer), 0)) {
        result = unproven("actions of an entry of pipe %s, which has no templates: they do nothing", pipe->cfg.name);
    }
    return finish(pipe, monitor, fwd, result, effect);
}

doca_error_t effect_create_literal(struct doca_flow_pipe *pipe, const struct action_template *actions,
                                   const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                   struct effect *effect)
{
    doca_error_t result;

    memset(effect, 0, sizeof(*effect));
    result = actions_compile(actions, COMPILE_LITERAL, NULL, pipe->cfg.port, &effect->actions);
    return finish(pipe, monitor, fwd, result, effect);
}

void effect_clear(struct doca_flow_port *port, struct effect *effect)
{
    if (effect->took_encap)
        budget_give(port, DOCA_FLOW_RESOURCE_ENCAP);
    if (effect->took_decap)
        budget_give(port, DOCA_FLOW_RESOURCE_DECAP);
    actions_clear(&effect->actions);
    watch_clear(port, &effect->watch);
    forward_clear(&effect->forward);
    memset(effect, 0, sizeof(*effect));
}

static void each_budget(struct doca_flow_port *port, const struct effect *effect, bool give)
{
    const bool held[RESOURCE_KINDS] = {
        [DOCA_FLOW_RESOURCE_METER] = effect->watch.own_meter,
        [DOCA_FLOW_RESOURCE_COUNTER] = effect->watch.own_counter,
        [DOCA_FLOW_RESOURCE_ENCAP] = effect->took_encap,
        [DOCA_FLOW_RESOURCE_DECAP] = effect->took_decap,
    };
    bool by_port = model.cfg.resource_mode == DOCA_FLOW_RESOURCE_MODE_PORT;

    for (unsigned type = 0; type < RESOURCE_KINDS; type++) {
        if (held[type] && give)
            budget_give(port, (enum doca_flow_resource)type);
        else if (held[type])
            (by_port ? port->used : model.used)[type]++;
    }
}

void effect_lend(struct doca_flow_port *port, const struct effect *effect)
{
    each_budget(port, effect, true);
}

void effect_reclaim(struct doca_flow_port *port, const struct effect *effect)
{
    each_budget(port, effect, false);
}
