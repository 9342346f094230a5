/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes that grow: the program is told when one fills up, asks for more room, and is told when that is there. */
#include "objects.h"

void resize_watch(struct doca_flow_pipe *pipe)
{
    if (!pipe->cfg.resizable || pipe->cfg.congestion == 0 || pipe->congested)
        return;
    if ((uint64_t)pipe->entry_count * 100 < (uint64_t)pipe->cfg.nr_entries * pipe->cfg.congestion)
        return;
    pipe->congested = true;
    if (model.cfg.pipe_cb != NULL)
        model.cfg.pipe_cb(pipe, DOCA_FLOW_PIPE_STATUS_SUCCESS, DOCA_FLOW_PIPE_OP_CONGESTION_REACHED,
                          pipe->cfg.user_ctx);
}

doca_error_t doca_flow_pipe_resize(struct doca_flow_pipe *pipe, uint8_t new_congestion_level,
                                   doca_flow_pipe_resize_nr_entries_changed_cb nr_entries_changed_cb,
                                   doca_flow_pipe_resize_entry_relocate_cb entry_relocate_cb)
{
    doca_error_t result = DOCA_SUCCESS;
    uint32_t size = 1;

    if (pipe == NULL || new_congestion_level == 0 || new_congestion_level > 100)
        return refuse(DOCA_ERROR_INVALID_VALUE, "pipe_resize without a pipe, or to a congestion level of %u percent",
                      new_congestion_level);
    model_lock();
    if (!pipe->cfg.resizable)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "pipe_resize of pipe %s, which is not resizable", pipe->cfg.name);
    else if (pipe->cfg.type != DOCA_FLOW_PIPE_BASIC && pipe->cfg.type != DOCA_FLOW_PIPE_CONTROL)
        result = unproven("pipe_resize of a pipe that is neither BASIC nor CONTROL");
    /* Public programs show powers of two that bring the fill to the level asked for. */
    while ((uint64_t)pipe->entry_count * 100 > (uint64_t)size * new_congestion_level && size < 1U << 31)
        size *= 2;
    if (result == DOCA_SUCCESS && nr_entries_changed_cb != NULL)
        result = nr_entries_changed_cb(pipe->cfg.user_ctx, size);
    if (result == DOCA_SUCCESS) {
        pipe->cfg.nr_entries = size;
        pipe->relocate_cb = entry_relocate_cb;
        pipe->resized = true;
    }
    model_unlock();
    return result;
}

void resize_finish(struct doca_flow_port *port, uint16_t queue)
{
    for (struct doca_flow_pipe *pipe = port->pipes, *next; pipe != NULL; pipe = next) {
        next = pipe->next;
        if (!pipe->resized || pipe->cfg.excluded_queue == queue)
            continue;
        pipe->resized = pipe->congested = false;
        for (struct doca_flow_pipe_entry *entry = pipe->entries; entry != NULL; entry = entry->next) {
            void *user_ctx = entry->user_ctx;

            if (pipe->relocate_cb == NULL)
                break;
            if (pipe->relocate_cb(pipe->cfg.user_ctx, entry->queue, entry->user_ctx, &user_ctx) == DOCA_SUCCESS)
                entry->user_ctx = user_ctx;
        }
        if (model.cfg.pipe_cb != NULL)
            model.cfg.pipe_cb(pipe, DOCA_FLOW_PIPE_STATUS_SUCCESS, DOCA_FLOW_PIPE_OP_RESIZED, pipe->cfg.user_ctx);
        resize_watch(pipe);
    }
}
