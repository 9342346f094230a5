#include "delivery.h"

#include <doca_bitfield.h>
#include <string.h>

#include "egress.h"
#include "shim.h"
#include "translate.h"

static bool open_slots(struct delivery *delivery, struct flow *flow, const struct budgets *budgets,
                       enum forward forward, struct fault *fault)
{
    static const char *const names[] = {"slots-l2", "slots-ipip", "slots-siit"};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_actions template = {0};
    struct doca_flow_fwd fwd = forward == FORWARD_SIIT ? fwd_list(delivery->to_ip6) : fwd_port(PORT_OUT);
    struct doca_flow_fwd drop = fwd_drop();
    struct pipe_spec spec = {.name = names[forward], .type = DOCA_FLOW_PIPE_BASIC, .counters = true,
                             .miss_counter = true, .entries = budgets->slots, .match = &match, .mask = &mask,
                             .templates = {&template}, .template_count = 1, .fwd = &fwd, .miss = &drop};

    mask.meta.u32[0] = mask.meta.u32[1] = UINT32_MAX;
    template.meta.pkt_meta = UINT32_MAX;
    if (forward == FORWARD_L2) {
        template.meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN);
        memset(template.outer.eth.dst_mac, 0xff, 6);
    }
    return pipe_create(&flow->ports[PORT_IN], &spec, &delivery->slots[forward], fault);
}

bool delivery_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, enum forward forward,
                   struct fault *fault)
{
    if (delivery->slots[forward] != NULL)
        return true;
    if (forward == FORWARD_IPIP && !egress_open(delivery, flow, budgets, fault))
        return false;
    if (forward == FORWARD_SIIT && !translate_open(delivery, flow, budgets, fault))
        return false;
    return open_slots(delivery, flow, budgets, forward, fault);
}

static void fill(enum forward forward, const struct slot_content *content, struct doca_flow_actions *actions)
{
    memset(actions, 0, sizeof(*actions));
    if (forward == FORWARD_L2)
        memcpy(actions->outer.eth.dst_mac, content->mac, 6);
    else
        actions->meta.pkt_meta = DOCA_HTOBE32(content->mark);
}

bool slot_add(struct delivery *delivery, struct flow_port *port, enum forward forward, uint32_t service,
              uint32_t number, const struct slot_content *content, struct doca_flow_pipe_entry **entry,
              struct fault *fault)
{
    struct doca_flow_match match = {0};
    struct doca_flow_actions actions;
    doca_error_t result;

    match.meta.u32[0] = DOCA_HTOBE32(number);
    match.meta.u32[1] = DOCA_HTOBE32(service);
    fill(forward, content, &actions);
    result = shim_basic_add(delivery->slots[forward], &match, 0, &actions, port, entry);
    return flow_queued(port, result, fault, "adding a slot");
}

bool update_entry(struct flow_port *port, struct doca_flow_pipe *pipe, uint8_t template,
                  const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry, struct fault *fault,
                  const char *what)
{
    doca_error_t result = shim_basic_update(pipe, template, actions, entry);

    if (result == DOCA_ERROR_AGAIN) {
        if (!flow_wait(port, fault))
            return false;
        result = shim_basic_update(pipe, template, actions, entry);
    }
    return flow_queued(port, result, fault, what);
}

bool slot_update(struct delivery *delivery, struct flow_port *port, enum forward forward,
                 const struct slot_content *content, struct doca_flow_pipe_entry *entry, struct fault *fault)
{
    struct doca_flow_actions actions;

    fill(forward, content, &actions);
    return update_entry(port, delivery->slots[forward], 0, &actions, entry, fault, "updating a slot");
}
