/* SPDX-License-Identifier: Apache-2.0 */
/* Where packets go after a pipe or entry: checked when it is made, and merged with the entry's own. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

struct doca_flow_target {
    enum doca_flow_target_type type;
};

static struct doca_flow_target kernel = {DOCA_FLOW_TARGET_KERNEL};

doca_error_t doca_flow_get_target(enum doca_flow_target_type type, struct doca_flow_target **target)
{
    if (target == NULL || type != DOCA_FLOW_TARGET_KERNEL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "get_target of type %d", (int)type);
    *target = &kernel;
    return DOCA_SUCCESS;
}

doca_error_t forward_create(const struct doca_flow_fwd *fwd, struct forward *forward)
{
    memset(forward, 0, sizeof(*forward));
    if (fwd == NULL)
        return DOCA_SUCCESS;
    forward->given = true;
    forward->fwd = *fwd;
    if (fwd->type == DOCA_FLOW_FWD_RSS && fwd->rss.nr_queues > 0) {
        size_t size = (size_t)fwd->rss.nr_queues * sizeof(*forward->queues);

        if (fwd->rss.queues_array == NULL)
            return refuse(DOCA_ERROR_INVALID_VALUE, "RSS with %d queues and no array", fwd->rss.nr_queues);
        forward->queues = malloc(size);
        if (forward->queues == NULL)
            return refuse(DOCA_ERROR_NO_MEMORY, "no memory for RSS queues");
        memcpy(forward->queues, fwd->rss.queues_array, size);
        forward->fwd.rss.queues_array = forward->queues;
    }
    return DOCA_SUCCESS;
}

void forward_clear(struct forward *forward)
{
    free(forward->queues);
    memset(forward, 0, sizeof(*forward));
}

bool forward_is_changeable(const struct doca_flow_fwd *fwd)
{
    switch (fwd->type) {
    case DOCA_FLOW_FWD_CHANGEABLE:
        return true;
    case DOCA_FLOW_FWD_PORT:
        return fwd->port_id == UINT16_MAX;
    case DOCA_FLOW_FWD_PIPE:
        return fwd->next_pipe == NULL;
    case DOCA_FLOW_FWD_ORDERED_LIST_PIPE:
        return fwd->ordered_list_pipe.idx == UINT32_MAX;
    case DOCA_FLOW_FWD_HASH_PIPE:
        return fwd->hash_pipe.pipe == NULL;
    case DOCA_FLOW_FWD_RSS:
        return fwd->rss.nr_queues == -1;
    case DOCA_FLOW_FWD_NONE:
    case DOCA_FLOW_FWD_DROP:
    case DOCA_FLOW_FWD_TARGET:
    default:
        return false;
    }
}

static doca_error_t check_hash_jump(const struct doca_flow_fwd *fwd)
{
    const struct doca_flow_pipe *pipe = fwd->hash_pipe.pipe;

    if (pipe != NULL && pipe->cfg.type != DOCA_FLOW_PIPE_HASH)
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward to a hash pipe, but pipe %s is none", pipe->cfg.name);
    switch (fwd->hash_pipe.algorithm) {
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING:
        break;
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH:
        return unproven("forward to a hash pipe by algorithm %d; public programs only flood that way",
                        (int)fwd->hash_pipe.algorithm);
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_RANDOM:
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_ROUND_ROBIN:
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_IDENTITY:
    case DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_SELECT_ENABLED:
    default:
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "forward to a hash pipe by algorithm %d; the model has HASH and "
                      "FLOODING", (int)fwd->hash_pipe.algorithm);
    }
    if (pipe != NULL && !(pipe->cfg.hash_algorithms & (uint32_t)fwd->hash_pipe.algorithm))
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward to a hash pipe by algorithm %d, which pipe %s was not "
                      "configured for", (int)fwd->hash_pipe.algorithm, pipe->cfg.name);
    return DOCA_SUCCESS;
}

static doca_error_t check_pipe(const struct doca_flow_pipe_cfg *cfg, const struct doca_flow_pipe *next)
{
    if (next == NULL)
        return DOCA_SUCCESS;
    /* Public programs jump between the default and the egress domain, to the egress root of another port even. */
    if (cfg->domain != next->cfg.domain)
        return DOCA_SUCCESS;
    if (cfg->port != next->cfg.port)
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward to pipe %s of another port", next->cfg.name);
    if (next->cfg.is_root)
        return unproven("forward to root pipe %s of the same domain", next->cfg.name);
    return DOCA_SUCCESS;
}

doca_error_t forward_check(const struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd)
{
    switch (fwd->type) {
    case DOCA_FLOW_FWD_NONE:
    case DOCA_FLOW_FWD_DROP:
    case DOCA_FLOW_FWD_CHANGEABLE:
        return DOCA_SUCCESS;
    case DOCA_FLOW_FWD_RSS:
        if (fwd->rss_type == DOCA_FLOW_RESOURCE_TYPE_SHARED)
            return refuse(DOCA_ERROR_NOT_SUPPORTED, "forward to a shared RSS; the model has those of a forward's own");
        if (fwd->rss.nr_queues == 0 || fwd->rss.nr_queues < -1)
            return refuse(DOCA_ERROR_INVALID_VALUE, "RSS with %d queues", fwd->rss.nr_queues);
        return DOCA_SUCCESS;
    case DOCA_FLOW_FWD_PORT:
        if (fwd->port_id == UINT16_MAX || fwd->port_id < PORTS_MAX)
            return DOCA_SUCCESS;
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward to port %u", fwd->port_id);
    case DOCA_FLOW_FWD_PIPE:
        return check_pipe(cfg, fwd->next_pipe);
    case DOCA_FLOW_FWD_TARGET:
        if (fwd->target == &kernel)
            return DOCA_SUCCESS;
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward to a target that doca_flow_get_target() did not give");
    case DOCA_FLOW_FWD_ORDERED_LIST_PIPE:
        if (fwd->ordered_list_pipe.pipe != NULL &&
            fwd->ordered_list_pipe.pipe->cfg.type == DOCA_FLOW_PIPE_ORDERED_LIST)
            return DOCA_SUCCESS;
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward of type ORDERED_LIST_PIPE without an ordered list pipe");
    case DOCA_FLOW_FWD_HASH_PIPE:
        return check_hash_jump(fwd);
    default:
        return refuse(DOCA_ERROR_INVALID_VALUE, "forward of type %d", (int)fwd->type);
    }
}

doca_error_t forward_check_miss(const struct doca_flow_fwd *fwd)
{
    if (fwd == NULL || fwd->type == DOCA_FLOW_FWD_DROP || fwd->type == DOCA_FLOW_FWD_NONE)
        return DOCA_SUCCESS;
    if (fwd->type == DOCA_FLOW_FWD_PIPE && fwd->next_pipe != NULL)
        return DOCA_SUCCESS;
    if (fwd->type == DOCA_FLOW_FWD_TARGET && fwd->target == &kernel)
        return DOCA_SUCCESS;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "fwd_miss of type %d; PIPE, DROP and TARGET are possible",
                  (int)fwd->type);
}

/* What the entry leaves open in the type that pipe and entry agree on. */
static doca_error_t complete(const struct doca_flow_pipe *pipe, struct doca_flow_fwd *fwd)
{
    const struct doca_flow_fwd *given = &pipe->forward.fwd;

    if (given->type == DOCA_FLOW_FWD_HASH_PIPE && fwd->hash_pipe.pipe == NULL)
        fwd->hash_pipe = given->hash_pipe;
    if (given->type == DOCA_FLOW_FWD_ORDERED_LIST_PIPE && fwd->ordered_list_pipe.pipe == NULL)
        fwd->ordered_list_pipe.pipe = given->ordered_list_pipe.pipe;
    if (forward_is_changeable(fwd))
        return refuse(DOCA_ERROR_INVALID_VALUE, "entry of pipe %s whose forward still leaves its target open",
                      pipe->cfg.name);
    return DOCA_SUCCESS;
}

doca_error_t forward_merge(const struct doca_flow_pipe *pipe, const struct doca_flow_fwd *entry,
                           struct forward *forward)
{
    const struct forward *given = &pipe->forward;
    bool open = !given->given || forward_is_changeable(&given->fwd) || given->fwd.type == DOCA_FLOW_FWD_NONE;
    struct doca_flow_fwd fwd;
    doca_error_t result;

    memset(forward, 0, sizeof(*forward));
    if (entry == NULL || entry->type == DOCA_FLOW_FWD_NONE) {
        if (given->given && forward_is_changeable(&given->fwd))
            return refuse(DOCA_ERROR_INVALID_VALUE, "entry without a forward, which pipe %s leaves to its entries",
                          pipe->cfg.name);
        if (!given->given || given->fwd.type == DOCA_FLOW_FWD_NONE)
            return refuse(DOCA_ERROR_INVALID_VALUE, "entry without a forward in pipe %s, which has none either",
                          pipe->cfg.name);
        return forward_create(&given->fwd, forward);
    }
    fwd = *entry;
    if (!open) {
        if (entry->type != given->fwd.type)
            return refuse(DOCA_ERROR_INVALID_VALUE, "entry with a forward of type %d in pipe %s, whose forward of "
                          "type %d is fixed", (int)entry->type, pipe->cfg.name, (int)given->fwd.type);
        if ((entry->type == DOCA_FLOW_FWD_PORT && entry->port_id != given->fwd.port_id) ||
            (entry->type == DOCA_FLOW_FWD_PIPE && entry->next_pipe != given->fwd.next_pipe))
            return refuse(DOCA_ERROR_INVALID_VALUE, "entry with another port or pipe to forward to than pipe %s, "
                          "where that is fixed", pipe->cfg.name);
        return forward_create(&given->fwd, forward);
    }
    if (given->given && given->fwd.type != DOCA_FLOW_FWD_NONE && given->fwd.type != DOCA_FLOW_FWD_CHANGEABLE) {
        /* A published balancer gives one slot of a pipe of ports to the kernel. */
        bool host = entry->type == DOCA_FLOW_FWD_TARGET && given->fwd.type == DOCA_FLOW_FWD_PORT;

        if (entry->type != given->fwd.type && !host) {
            result = unproven("entry with a forward of type %d in pipe %s, which declares changeable forwards of "
                              "type %d", (int)entry->type, pipe->cfg.name, (int)given->fwd.type);
            if (result != DOCA_SUCCESS)
                return result;
        } else if (!host) {
            result = complete(pipe, &fwd);
            if (result != DOCA_SUCCESS)
                return result;
        }
    }
    result = forward_check(&pipe->cfg, &fwd);
    if (result == DOCA_SUCCESS)
        result = forward_create(&fwd, forward);
    return result;
}
