/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on entries wait in queues: first until they are pushed, from when on they take effect, then until
 * doca_flow_entries_process() reports them. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "objects.h"

doca_error_t queue_check(struct doca_flow_port *port, uint16_t queue, uint32_t flags, const char *what)
{
    uint32_t both = DOCA_FLOW_ENTRY_FLAGS_NO_WAIT | DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH;

    if (queue >= model.cfg.queues)
        return refuse(DOCA_ERROR_INVALID_VALUE, "%s on queue %u; the library has %u", what, queue, model.cfg.queues);
    if ((flags & ~both) != 0 || flags == both)
        return refuse(DOCA_ERROR_INVALID_VALUE, "%s with flags 0x%x; NO_WAIT or WAIT_FOR_BATCH", what, flags);
    /* What was pushed leaves the queue by itself and only waits to be reported: a public program with the default
     * depth of 128 adds 150 entries before it processes them. */
    if (port->queues[queue].wait_count >= model.cfg.queue_depth)
        return refuse(DOCA_ERROR_DRIVER, "%s: queue %u holds %u operations that were not pushed; one without "
                      "WAIT_FOR_BATCH, or doca_flow_entries_process(), pushes them", what, queue,
                      model.cfg.queue_depth);
    return DOCA_SUCCESS;
}

static void take_effect(struct operation *operation)
{
    struct doca_flow_pipe_entry *entry = operation->entry;
    struct effect *update = entry->update;

    switch (operation->kind) {
    case OPERATION_ADD:
        entry->active = true;
        entry->hit_ns = model_now_ns();
        break;
    case OPERATION_UPDATE:
        entry->update = NULL;
        if (update == NULL)
            break; /* a later update came before this one was pushed: both have the latest effect */
        update->watch.counter = entry->effect.watch.counter;
        effect_reclaim(entry->pipe->cfg.port, &entry->effect); /* it was lent, and is cleared now */
        effect_clear(entry->pipe->cfg.port, &entry->effect);
        entry->effect = *update;
        free(update);
        break;
    case OPERATION_REMOVE:
    default:
        entry->active = false;
        index_remove(entry->pipe, entry);
        break;
    }
}

static void push(struct queue *queue)
{
    while (queue->waiting != NULL) {
        take_effect(queue->waiting);
        queue->waiting = queue->waiting->next;
    }
    queue->wait_count = 0;
}

doca_error_t queue_put(struct doca_flow_pipe_entry *entry, uint16_t queue_id, enum operation_kind kind, bool wait)
{
    struct queue *queue = &entry->pipe->cfg.port->queues[queue_id];
    struct operation *operation = calloc(1, sizeof(*operation));

    if (operation == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an operation");
    operation->entry = entry;
    operation->kind = kind;
    if (entry->pipe->cfg.type == DOCA_FLOW_PIPE_CONTROL && kind == OPERATION_ADD) {
        /* Public programs neither wait for these nor have them counted among what they wait for. */
        take_effect(operation);
        free(operation);
        entry->status = DOCA_FLOW_ENTRY_STATUS_SUCCESS;
        if (model.cfg.entry_cb != NULL)
            model.cfg.entry_cb(entry, queue_id, entry->status, DOCA_FLOW_ENTRY_OP_ADD, entry->user_ctx);
        return DOCA_SUCCESS;
    }
    *queue->last = operation;
    queue->last = &operation->next;
    queue->wait_count++;
    if (queue->waiting == NULL)
        queue->waiting = operation;
    entry->pending++;
    entry->status = DOCA_FLOW_ENTRY_STATUS_IN_PROCESS;
    if (!wait)
        push(queue);
    return DOCA_SUCCESS;
}

void queue_push_all(struct doca_flow_port *port)
{
    for (uint16_t i = 0; i < model.cfg.queues; i++)
        push(&port->queues[i]);
}

void queue_forget(struct doca_flow_port *port, const struct doca_flow_pipe *pipe,
                  const struct doca_flow_pipe_entry *entry)
{
    for (uint16_t i = 0; i < model.cfg.queues; i++) {
        struct queue *queue = &port->queues[i];
        struct operation **link = &queue->first;
        bool waits = false;

        while (*link != NULL) {
            struct operation *operation = *link;

            waits = waits || operation == queue->waiting;
            if (operation->entry->pipe != pipe || (entry != NULL && operation->entry != entry)) {
                link = &operation->next;
                continue;
            }
            *link = operation->next;
            if (operation == queue->waiting)
                queue->waiting = operation->next;
            queue->wait_count -= waits;
            free(operation);
        }
        queue->last = link;
    }
}

static void complete(struct queue *queue, uint16_t queue_id)
{
    static const enum doca_flow_entry_op ops[] = {DOCA_FLOW_ENTRY_OP_ADD, DOCA_FLOW_ENTRY_OP_UPD,
                                                  DOCA_FLOW_ENTRY_OP_DEL};
    struct operation *operation = queue->first;
    struct doca_flow_pipe_entry *entry = operation->entry;
    enum operation_kind kind = operation->kind;

    queue->first = operation->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    entry->pending--;
    free(operation);

    entry->status = DOCA_FLOW_ENTRY_STATUS_SUCCESS;
    if (kind == OPERATION_REMOVE) { /* out of the pipe first: the callback may destroy that */
        *entry->link = entry->next;
        if (entry->next != NULL)
            entry->next->link = entry->link;
        entry->pipe->entry_count--;
        if (entry->pending > 0) /* added through another queue that was not processed */
            queue_forget(entry->pipe->cfg.port, entry->pipe, entry);
        entry_release(entry);
    }
    if (model.cfg.entry_cb != NULL)
        model.cfg.entry_cb(entry, queue_id, DOCA_FLOW_ENTRY_STATUS_SUCCESS, ops[kind], entry->user_ctx);
    if (kind == OPERATION_REMOVE)
        free(entry);
}

/* Operations that are not there yet will not come while we wait, except through another thread. */
static void wait_out(uint64_t timeout_us)
{
    struct timespec left = {.tv_sec = (time_t)(timeout_us / 1000000), .tv_nsec = (long)(timeout_us % 1000000) * 1000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

doca_error_t doca_flow_entries_process(struct doca_flow_port *port, uint16_t pipe_queue, uint64_t timeout,
                                       uint32_t max_processed_entries)
{
    struct queue *queue;
    uint32_t done = 0;

    if (port == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "entries_process without a port");
    model_lock();
    if (pipe_queue >= model.cfg.queues) {
        doca_error_t result = refuse(DOCA_ERROR_INVALID_VALUE, "entries_process on queue %u; the library has %u",
                                     pipe_queue, model.cfg.queues);

        model_unlock();
        return result;
    }
    queue = &port->queues[pipe_queue];
    while (queue->first != NULL && (max_processed_entries == 0 || done < max_processed_entries)) {
        push(queue); /* also what a callback has queued */
        complete(queue, pipe_queue);
        done++;
    }
    resize_finish(port, pipe_queue);
    model_unlock();
    /* As the library does: it comes back early only if it has processed as many as it was asked for. */
    if (max_processed_entries == 0 || done < max_processed_entries)
        wait_out(timeout);
    return DOCA_SUCCESS;
}

enum doca_flow_entry_status doca_flow_pipe_entry_get_status(struct doca_flow_pipe_entry *entry)
{
    enum doca_flow_entry_status status;

    if (entry == NULL)
        return DOCA_FLOW_ENTRY_STATUS_ERROR;
    model_lock();
    status = entry->status;
    model_unlock();
    return status;
}
