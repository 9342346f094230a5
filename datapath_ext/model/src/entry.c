/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of entries have in common: adding, updating, removing, querying. */
#include "entry.h"
#include "faults.h"

#include <stdlib.h>
#include <string.h>

void entry_release(struct doca_flow_pipe_entry *entry)
{
    struct doca_flow_port *port = entry->pipe->cfg.port;

    if (entry->update != NULL) {
        effect_reclaim(port, &entry->effect); /* the update's clearing gives it back */
        effect_clear(port, entry->update);
        free(entry->update);
        entry->update = NULL;
    }
    effect_clear(port, &entry->effect);
    list_clear_compiled(port, entry);
    matcher_clear(&entry->matcher);
    free(entry->key);
    free(entry->key_mask);
    entry->key = entry->key_mask = NULL;
    entry->pipe = NULL;
}

doca_error_t entry_begin(struct doca_flow_pipe *pipe, enum doca_flow_pipe_type type, uint16_t queue, uint32_t flags,
                         void *user_ctx, struct doca_flow_pipe_entry **entry)
{
    doca_error_t result;

    *entry = NULL;
    if (pipe->cfg.type != type)
        return refuse(DOCA_ERROR_INVALID_VALUE, "entry of type %d for pipe %s of type %d", (int)type, pipe->cfg.name,
                      (int)pipe->cfg.type);
    if (pipe->cfg.excluded_queue == queue)
        return refuse(DOCA_ERROR_INVALID_VALUE, "entry of pipe %s on queue %u, which the pipe excludes",
                      pipe->cfg.name, queue);
    result = queue_check(pipe->cfg.port, queue, flags, "add_entry");
    if (result != DOCA_SUCCESS)
        return result;
    result = faults_check_add(pipe);
    if (result != DOCA_SUCCESS)
        return result;
    if (pipe->entry_count >= pipe->cfg.nr_entries)
        return refuse(DOCA_ERROR_DRIVER, "pipe %s is full: %u entries", pipe->cfg.name, pipe->cfg.nr_entries);
    *entry = calloc(1, sizeof(**entry));
    if (*entry == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an entry");
    (*entry)->pipe = pipe;
    (*entry)->queue = queue;
    (*entry)->user_ctx = user_ctx;
    return DOCA_SUCCESS;
}

static doca_error_t check_place(struct doca_flow_pipe *pipe, const struct doca_flow_pipe_entry *entry)
{
    const struct doca_flow_pipe_entry *holder = index_holder(pipe, entry);

    if (holder == NULL)
        return DOCA_SUCCESS;
    if (holder->removing) { /* it leaves its place when its removal is pushed */
        queue_push_all(pipe->cfg.port);
        return DOCA_SUCCESS;
    }
    if (pipe->cfg.type == DOCA_FLOW_PIPE_BASIC)
        return refuse(DOCA_ERROR_ALREADY_EXIST, "pipe %s has an entry with this match", pipe->cfg.name);
    return refuse(DOCA_ERROR_INVALID_VALUE, "pipe %s has an entry with index %u", pipe->cfg.name, entry->index);
}

doca_error_t entry_end(struct doca_flow_pipe_entry *entry, uint16_t queue, uint32_t flags, doca_error_t result,
                       struct doca_flow_pipe_entry **out)
{
    struct doca_flow_pipe *pipe;

    if (entry == NULL)
        return result;
    pipe = entry->pipe;
    if (result == DOCA_SUCCESS)
        result = check_place(pipe, entry);
    if (result == DOCA_SUCCESS)
        result = index_add(pipe, entry);
    if (result == DOCA_SUCCESS) {
        result = queue_put(entry, queue, OPERATION_ADD, (flags & DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH) != 0);
        if (result != DOCA_SUCCESS)
            index_remove(pipe, entry);
    }
    if (result != DOCA_SUCCESS) {
        entry_release(entry);
        free(entry);
        return result;
    }
    entry->next = pipe->entries;
    entry->link = &pipe->entries;
    if (entry->next != NULL)
        entry->next->link = &entry->next;
    pipe->entries = entry;
    pipe->entry_count++;
    if (out != NULL)
        *out = entry;
    resize_watch(pipe);
    return DOCA_SUCCESS;
}

doca_error_t entry_update(enum doca_flow_pipe_type type, uint16_t queue, struct doca_flow_pipe *pipe,
                          uint8_t action_idx, const struct doca_flow_actions *actions,
                          const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd, uint32_t flags,
                          struct doca_flow_pipe_entry *entry)
{
    struct effect *update = NULL;
    doca_error_t result;

    if (pipe == NULL || entry == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "update_entry without a pipe or an entry");
    model_lock();
    if (entry->pipe != pipe || pipe->cfg.type != type || entry->removing)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "update of an entry that is not of pipe %s, or is being removed",
                        pipe->cfg.name);
    else
        result = queue_check(pipe->cfg.port, queue, flags, "update_entry");
    if (result == DOCA_SUCCESS && entry->update != NULL)
        result = refuse(DOCA_ERROR_AGAIN, "update of an entry of pipe %s that waits for another one", pipe->cfg.name);
    if (result == DOCA_SUCCESS)
        result = faults_check_update(entry);
    if (result == DOCA_SUCCESS) {
        update = calloc(1, sizeof(*update));
        if (update == NULL)
            result = refuse(DOCA_ERROR_NO_MEMORY, "no memory for an update");
    }
    if (result == DOCA_SUCCESS) {
        effect_lend(pipe->cfg.port, &entry->effect);
        result = effect_create(pipe, action_idx, actions, monitor, fwd, update);
        if (result != DOCA_SUCCESS)
            effect_reclaim(pipe->cfg.port, &entry->effect);
    }
    if (result == DOCA_SUCCESS) {
        entry->update = update;
        result = queue_put(entry, queue, OPERATION_UPDATE, (flags & DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH) != 0);
        if (result == DOCA_SUCCESS) {
            update = NULL;
            entry->updates++;
        } else {
            entry->update = NULL;
            effect_clear(pipe->cfg.port, update);
            effect_reclaim(pipe->cfg.port, &entry->effect);
        }
    }
    free(update);
    model_unlock();
    return result;
}

doca_error_t doca_flow_pipe_remove_entry(uint16_t pipe_queue, uint32_t flags, struct doca_flow_pipe_entry *entry)
{
    doca_error_t result;

    if (entry == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "remove_entry without an entry");
    model_lock();
    if (entry->removing)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "remove of an entry that is being removed");
    else
        result = queue_check(entry->pipe->cfg.port, pipe_queue, flags, "remove_entry");
    if (result == DOCA_SUCCESS)
        result = faults_check_remove(entry);
    if (result == DOCA_SUCCESS) {
        entry->removing = true;
        result = queue_put(entry, pipe_queue, OPERATION_REMOVE, (flags & DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH) != 0);
        if (result != DOCA_SUCCESS)
            entry->removing = false;
    }
    model_unlock();
    return result;
}

doca_error_t doca_flow_resource_query_entry(struct doca_flow_pipe_entry *entry, struct doca_flow_resource_query *query)
{
    doca_error_t result = DOCA_SUCCESS;
    uint32_t found = 0;

    if (entry == NULL || query == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "resource_query_entry without an entry or a place for the result");
    model_lock();
    if (entry->effect.watch.own_counter)
        counter_query(&entry->effect.watch.counter, &query[found++]);
    else if (entry->effect.watch.shared_counter != NULL)
        counter_query(&entry->effect.watch.shared_counter->counter, &query[found++]);
    for (uint32_t i = 0; i < entry->element_count; i++) /* a list fills an array, one result per counter of its own */
        if (entry->elements[i].watch.own_counter)
            counter_query(&entry->elements[i].watch.counter, &query[found++]);
    if (found == 0)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "resource_query_entry of an entry without a counter");
    model_unlock();
    return result;
}

int doca_flow_aging_handle(struct doca_flow_port *port, uint16_t queue, uint64_t quota, uint64_t max_entries)
{
    uint64_t now, found = 0;

    (void)quota; /* a cycle is quick */
    if (port == NULL)
        return -1;
    model_lock();
    now = model_now_ns();
    for (struct doca_flow_pipe *pipe = port->pipes; pipe != NULL; pipe = pipe->next)
        for (struct doca_flow_pipe_entry *entry = pipe->entries, *next; entry != NULL; entry = next) {
            uint64_t age_ns = entry->effect.watch.aging_sec * 1000000000ULL;

            next = entry->next; /* the callback may remove the entry */
            if (age_ns == 0 || entry->aged || !entry->active || entry->removing || entry->queue != queue ||
                now - entry->hit_ns < age_ns || (max_entries != 0 && found >= max_entries))
                continue;
            entry->aged = true;
            found++;
            if (model.cfg.entry_cb != NULL)
                model.cfg.entry_cb(entry, queue, DOCA_FLOW_ENTRY_STATUS_SUCCESS, DOCA_FLOW_ENTRY_OP_AGED,
                                   entry->user_ctx);
        }
    model_unlock();
    return found > 0 ? (int)found : -1;
}
