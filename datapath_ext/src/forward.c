/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <doca_bitfield.h>
#include <stdio.h>
#include <string.h>

#include "compat.h"
#include "target.h"

#define FORWARD_ADDRESS(NAME) &forward_##NAME,
const struct forward_ops *const forward_modes[FORWARD_MODE_COUNT] = {FORWARD_MODES(FORWARD_ADDRESS)};
#undef FORWARD_ADDRESS

size_t forward_number(const struct forward_ops *forward)
{
    size_t number = 0;

    while (forward_modes[number] != forward)
        number++;
    return number;
}

static bool open_slots(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                       const struct forward_ops *forward, struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_actions template = {0};
    struct doca_flow_fwd fwd = forward->slots_fwd(pipes), drop = fwd_drop();
    char name[64];
    struct pipe_spec spec = {.name = name, .type = DOCA_FLOW_PIPE_BASIC, .counters = true, .miss_counter = true,
                             .entries = budgets_slot_entries(budgets), .match = &match, .mask = &mask,
                             .templates = {&template}, .template_count = 1, .fwd = &fwd, .miss = &drop};

    (void)snprintf(name, sizeof(name), "slots-%s", forward->name);
    mask.meta.u32[0] = mask.meta.u32[1] = UINT32_MAX;
    forward->slot_template(&template);
    return pipe_create(&flow->ports[PORT_IN], &spec, &pipes->slots, fault);
}

bool forward_open(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                  const struct forward_ops *forward, struct fault *fault)
{
    if (pipes->slots != NULL)
        return true;
    if (forward->open != NULL && !forward->open(pipes, flow, budgets, fault))
        return false;
    return open_slots(pipes, flow, budgets, forward, fault);
}

static bool add_misses(struct doca_flow_pipe *pipe, uint64_t *packets)
{
    uint64_t missed = 0;

    if (pipe != NULL && !count_misses(pipe, &missed))
        return false;
    *packets += missed;
    return true;
}

bool forward_count_misses(const struct forward_pipes *pipes, const struct forward_ops *forward, uint64_t *packets)
{
    bool good = add_misses(pipes->slots, packets);

    for (unsigned i = 0; i < FORWARD_PIPES_MAX && good; i++)
        if (forward->drop_pipes & 1U << i)
            good = add_misses(pipes->pipes[i], packets);
    return good;
}

bool slot_add(const struct forward_pipes *pipes, struct flow_port *port, const struct forward_ops *forward,
              uint32_t service, uint32_t number, const struct slot_content *content,
              struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct doca_flow_match match = {0};
    struct doca_flow_actions actions = {0};
    doca_error_t result;

    match.meta.u32[0] = DOCA_HTOBE32(number);
    match.meta.u32[1] = DOCA_HTOBE32(service);
    forward->slot_actions(content, &actions);
    result = compat_basic_add(pipes->slots, &match, 0, &actions, port, entry);
    return flow_queued(port, result, fault, "adding a slot");
}

bool slot_update(const struct forward_pipes *pipes, struct flow_port *port, const struct forward_ops *forward,
                 const struct slot_content *content, struct doca_flow_pipe_entry *entry, struct fault *fault)
{
    struct doca_flow_actions actions = {0};

    forward->slot_actions(content, &actions);
    return update_entry(port, pipes->slots, 0, &actions, entry, fault, "updating a slot");
}

void slot_mark_template(struct doca_flow_actions *actions)
{
    actions->meta.pkt_meta = UINT32_MAX;
}

struct slot_content slot_mark_content(const struct backend *backend, const struct target *target)
{
    (void)backend;
    return (struct slot_content){.mark = target != NULL ? target->mark : 0};
}

void slot_mark_actions(const struct slot_content *content, struct doca_flow_actions *actions)
{
    actions->meta.pkt_meta = DOCA_HTOBE32(content->mark);
}

json_t *slot_mark_report(const char *backend, const struct slot_content *content)
{
    return json_pack("{s:s, s:I}", "backend", backend, "mark", (json_int_t)content->mark);
}

bool check_backend_address(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                           struct fault *fault)
{
    const struct backend *backend = &program->backends[vip->slots[slot]];

    return backend->address.family != 0 ||
           fault_set(fault, "$.vips[%zu].%s[%u]: found backend %s without an address, expected one with an "
                     "address (vip %s forwards by %s)", number, vip->probe != NULL ? "probes" : "slots", slot, backend->name, vip->name, vip->forward->name);
}
