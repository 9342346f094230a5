/* SPDX-License-Identifier: Apache-2.0 */
/* What a packet meets: from the root of its port through pipes to where it ends. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "nat64.h"
#include "objects.h"
#include "scratch.h"

struct run {
    struct doca_flow_model_result *result;
    struct doca_flow_port *in;  /* where it came in */
    enum doca_flow_pipe_domain domain;
    struct packet *packet;
    const struct doca_flow_pipe *pipe; /* the latest one, for messages */
    bool left; /* it has been through the egress domain, or is in it */
    unsigned jumps;
    uint64_t now_ns; /* when it came */
    unsigned *steps; /* of all copies together: floods can multiply */
};

enum { STEPS_MAX = 4096 };

static bool egress_by_port;

void doca_flow_model_set_egress_by_port(bool on)
{
    model_lock();
    egress_by_port = on;
    model_unlock();
}

/* The packet ends here; what is left of it goes to the result. */
static void end(struct run *run, enum doca_flow_model_verdict verdict, uint16_t where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void end(struct run *run, enum doca_flow_model_verdict verdict, uint16_t where, const char *format, ...)
{
    struct doca_flow_model_result *result = run->result;
    struct doca_flow_model_output *outputs = realloc(result->outputs, (result->count + 1) * sizeof(*outputs)), *output;
    va_list arguments;
    int used;

    if (outputs == NULL)
        return;
    result->outputs = outputs;
    output = &outputs[result->count];
    memset(output, 0, sizeof(*output));
    output->frame = malloc(run->packet->length);
    if (output->frame == NULL)
        return;
    memcpy(output->frame, run->packet->data, run->packet->length);
    output->length = run->packet->length;
    output->verdict = verdict;
    output->port_id = verdict == DOCA_FLOW_MODEL_SENT ? where : run->in->cfg.id;
    output->queue = verdict == DOCA_FLOW_MODEL_QUEUED ? where : 0;
    output->pkt_meta = DOCA_BETOH32(run->packet->meta.pkt_meta);
    used = snprintf(output->reason, sizeof(output->reason), "%.60s: ",
                    run->pipe != NULL ? run->pipe->cfg.name : "port");
    va_start(arguments, format);
    if (used > 0 && (size_t)used < sizeof(output->reason))
        (void)vsnprintf(output->reason + used, sizeof(output->reason) - (size_t)used, format, arguments);
    va_end(arguments);
    result->count++;
}

static void run_pipe(struct run *run, struct doca_flow_pipe *pipe, uint32_t index, uint32_t algorithm);
static void run_forward(struct run *run, const struct forward *forward);

/* The port whose pipes a port's packets meet. */
static struct doca_flow_port *owner_of(struct doca_flow_port *port)
{
    struct doca_flow_port *manager = model.cfg.switch_mode ? doca_flow_port_switch_get(port) : NULL;

    return manager != NULL ? manager : port;
}

static void leave(struct run *run, uint16_t port_id)
{
    struct doca_flow_port *port = port_find(port_id), *owner;

    if (port == NULL) {
        end(run, DOCA_FLOW_MODEL_BROKEN, 0, "forward to port %u, which was not started", port_id);
        return;
    }
    owner = owner_of(port);
    /* From 3.1 on a packet is in the egress domain only if a forward of type PIPE took it there. */
    if (egress_by_port && !run->left && owner->root[DOCA_FLOW_PIPE_DOMAIN_EGRESS] != NULL) {
        run_pipe(run, owner->root[DOCA_FLOW_PIPE_DOMAIN_EGRESS], 0, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH);
        return;
    }
    end(run, DOCA_FLOW_MODEL_SENT, port_id, "forward to port %u", port_id);
}

/* Not the hardware's function: only that one flow stays on one queue holds. */
static uint16_t rss_queue(const struct packet *packet, const struct doca_flow_resource_rss_cfg *rss)
{
    const struct layer *outer = &packet->layer[0];
    uint32_t hash = 2166136261U;
    size_t from = outer->l3 == DOCA_FLOW_L3_META_IPV4 ? 12 : 8, size = from == 12 ? 8 : 32;
    const uint8_t *ip = packet->data + outer->l3_off, *l4 = packet->data + outer->l4_off;

    if (outer->l3 != DOCA_FLOW_L3_META_NONE)
        for (size_t i = 0; i < size; i++)
            hash = (hash ^ ip[from + i]) * 16777619U;
    if (outer->l4 == DOCA_FLOW_L4_META_TCP || outer->l4 == DOCA_FLOW_L4_META_UDP)
        for (size_t i = 0; i < 4; i++)
            hash = (hash ^ l4[i]) * 16777619U;
    return rss->queues_array[(hash ^ hash >> 16) % (uint32_t)rss->nr_queues];
}

static void to_queue(struct run *run, const struct doca_flow_fwd *fwd)
{
    const struct doca_flow_resource_rss_cfg *rss = &fwd->rss;

    if (rss->nr_queues <= 0 || rss->queues_array == NULL) {
        end(run, DOCA_FLOW_MODEL_BROKEN, 0, "RSS without queues");
        return;
    }
    end(run, DOCA_FLOW_MODEL_QUEUED, rss_queue(run->packet, rss), "RSS");
}

static void run_forward(struct run *run, const struct forward *forward)
{
    const struct doca_flow_fwd *fwd = &forward->fwd;

    switch (fwd->type) {
    case DOCA_FLOW_FWD_PORT:
        leave(run, fwd->port_id);
        break;
    case DOCA_FLOW_FWD_PIPE:
        run_pipe(run, fwd->next_pipe, 0, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH);
        break;
    case DOCA_FLOW_FWD_HASH_PIPE:
        run_pipe(run, fwd->hash_pipe.pipe, 0, (uint32_t)fwd->hash_pipe.algorithm);
        break;
    case DOCA_FLOW_FWD_ORDERED_LIST_PIPE:
        run_pipe(run, fwd->ordered_list_pipe.pipe, fwd->ordered_list_pipe.idx, 0);
        break;
    case DOCA_FLOW_FWD_RSS:
        to_queue(run, fwd);
        break;
    case DOCA_FLOW_FWD_TARGET:
        end(run, DOCA_FLOW_MODEL_KERNEL, 0, "forward to the kernel");
        break;
    case DOCA_FLOW_FWD_DROP:
        end(run, DOCA_FLOW_MODEL_DROPPED, 0, forward->target_gone ? "the next pipe was destroyed" : "forward to drop");
        break;
    case DOCA_FLOW_FWD_NONE:
    case DOCA_FLOW_FWD_CHANGEABLE:
    default:
        end(run, DOCA_FLOW_MODEL_BROKEN, 0, "forward of type %d", (int)fwd->type);
        break;
    }
}

static void miss(struct run *run, struct doca_flow_pipe *pipe)
{
    if (pipe->cfg.miss_counter)
        counter_add(&pipe->miss_counter, run->packet->length);
    if (pipe->miss.given && pipe->miss.fwd.type != DOCA_FLOW_FWD_NONE)
        run_forward(run, &pipe->miss);
    else
        end(run, DOCA_FLOW_MODEL_MISSED, 0, "no rule");
}

/* False if the packet ended. */
static bool act(struct run *run, const struct action_set *actions)
{
    const char *why = "";

    switch (actions_apply(actions, run->packet, &why)) {
    case ACTIONS_UNPROVEN:
        end(run, DOCA_FLOW_MODEL_UNPROVEN, 0, "%s", why);
        return false;
    case ACTIONS_BROKEN:
        end(run, DOCA_FLOW_MODEL_BROKEN, 0, "%s", why);
        return false;
    case ACTIONS_DONE:
    default:
        return true;
    }
}

static void run_entry(struct run *run, struct doca_flow_pipe_entry *entry)
{
    entry->hit_ns = run->now_ns;
    if (watch_packet(&entry->effect.watch, run->packet)) {
        end(run, DOCA_FLOW_MODEL_DROPPED, 0, "red by the entry's own meter");
        return;
    }
    for (uint32_t i = 0; i < entry->element_count; i++) {
        if (watch_packet(&entry->elements[i].watch, run->packet)) {
            end(run, DOCA_FLOW_MODEL_DROPPED, 0, "red by the list's meter");
            return;
        }
        if (!act(run, &entry->elements[i].actions))
            return;
    }
    if (act(run, &entry->effect.actions))
        run_forward(run, &entry->effect.forward);
}

/* A copy to every entry; the original ends with the last one. */
static void flood(struct run *run, struct doca_flow_pipe *pipe)
{
    struct doca_flow_pipe_entry *last = NULL;
    struct packet *original = run->packet;

    for (size_t i = 0; i < pipe->slot_count; i++)
        if (pipe->slots[i] != NULL && pipe->slots[i]->active)
            last = pipe->slots[i];
    if (last == NULL) {
        miss(run, pipe);
        return;
    }
    for (size_t i = 0; pipe->slots[i] != last; i++) {
        struct run copy = *run;

        if (pipe->slots[i] == NULL || !pipe->slots[i]->active)
            continue;
        copy.packet = packet_copy(original);
        if (copy.packet == NULL) {
            end(run, DOCA_FLOW_MODEL_BROKEN, 0, "no memory for a copy");
            continue;
        }
        run_entry(&copy, pipe->slots[i]);
        packet_destroy(copy.packet);
    }
    run_entry(run, last);
}

static uint32_t pick_slot(struct run *run, struct doca_flow_pipe *pipe, bool *lacking)
{
    uint8_t key[KEY_MAX];
    uint32_t size = 1;

    *lacking = false;
    while (size < pipe->cfg.nr_entries)
        size *= 2;
    matcher_hash_key(&pipe->matcher, run->packet, key, lacking);
    return hash_key(&pipe->matcher, key) & (size - 1);
}

static void run_hash(struct run *run, struct doca_flow_pipe *pipe, uint32_t algorithm)
{
    uint32_t slot;
    bool lacking;

    scratch_clobber(run->packet, SCRATCH_HASH);
    if (!(pipe->cfg.hash_algorithms & algorithm)) /* a plain jump to a pipe of another algorithm */
        algorithm = pipe->cfg.hash_algorithms & -pipe->cfg.hash_algorithms;
    if (algorithm == DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING) {
        flood(run, pipe);
        return;
    }
    slot = pick_slot(run, pipe, &lacking);
    if (lacking && doca_flow_model_is_strict()) {
        end(run, DOCA_FLOW_MODEL_UNPROVEN, 0, "hash of fields that the packet has not");
        return;
    }
    if (slot < pipe->slot_count && pipe->slots[slot] != NULL && pipe->slots[slot]->active)
        run_entry(run, pipe->slots[slot]);
    else
        miss(run, pipe);
}

static void run_pipe(struct run *run, struct doca_flow_pipe *pipe, uint32_t index, uint32_t algorithm)
{
    struct doca_flow_pipe_entry *entry = NULL;

    run->pipe = pipe;
    if (run->domain != pipe->cfg.domain) {
        run->domain = pipe->cfg.domain;
        run->left = true;
        scratch_fill(run->packet, false);
    }
    if (++*run->steps > STEPS_MAX)
        return;
    if (++run->jumps > JUMPS_MAX) {
        end(run, DOCA_FLOW_MODEL_BROKEN, 0, "more than %d pipes: a loop", JUMPS_MAX);
        return;
    }
    switch (pipe->cfg.type) {
    case DOCA_FLOW_PIPE_HASH:
        run_hash(run, pipe, algorithm);
        return;
    case DOCA_FLOW_PIPE_ORDERED_LIST:
        if (index < pipe->slot_count && pipe->slots[index] != NULL && pipe->slots[index]->active)
            entry = pipe->slots[index];
        break;
    case DOCA_FLOW_PIPE_LPM:
        entry = index_find(pipe, run->packet);
        scratch_clobber(run->packet, SCRATCH_LPM);
        break;
    case DOCA_FLOW_PIPE_ACL:
    case DOCA_FLOW_PIPE_BASIC:
    case DOCA_FLOW_PIPE_CONTROL:
    case DOCA_FLOW_PIPE_CT:
    default:
        entry = index_find(pipe, run->packet);
        break;
    }
    if (entry != NULL)
        run_entry(run, entry);
    else
        miss(run, pipe);
}

void run_packet(struct doca_flow_port *port, struct packet *packet, struct doca_flow_model_result *result)
{
    struct doca_flow_port *owner = owner_of(port);
    unsigned steps = 0;
    struct run run = {.result = result, .in = port, .packet = packet, .now_ns = model_now_ns(), .steps = &steps};

    packet->in_port = port->cfg.id;
    packet->parser.port_id = port->cfg.id;
    packet->parser.random = (doca_be16_t)model_random();
    packet->parser.meter_color = DOCA_FLOW_METER_COLOR_GREEN;
    scratch_fill(packet, true);
    packet_parse(packet);
    if (owner->root[DOCA_FLOW_PIPE_DOMAIN_DEFAULT] != NULL)
        run_pipe(&run, owner->root[DOCA_FLOW_PIPE_DOMAIN_DEFAULT], 0, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH);
    else
        end(&run, DOCA_FLOW_MODEL_MISSED, 0, "no rule");
    packet_destroy(packet);
}
