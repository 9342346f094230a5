#include "translate.h"

#include <doca_bitfield.h>
#include <string.h>

#include "shim.h"

#if SHIM_HAS_NAT64

static bool open_list(struct flow_port *port, enum doca_flow_l3_type from, struct doca_flow_pipe *next,
                      struct doca_flow_pipe **pipe, struct fault *fault)
{
    /* Not const: the SDK's pointers to them are not. */
    struct doca_flow_nat64_action nat64 = {.original_l3_type = from};
    struct doca_flow_ordered_list_element element = {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64, .nat64 = &nat64};
    struct doca_flow_ordered_list list = {.size = 1, .elements = &element};
    struct doca_flow_fwd fwd = fwd_pipe(next);
    struct pipe_spec spec = {.name = from == DOCA_FLOW_L3_TYPE_IP4 ? "to-ipv6" : "to-ipv4",
                             .type = DOCA_FLOW_PIPE_ORDERED_LIST, .entries = 1, .list = &list, .fwd = &fwd};

    if (!pipe_create(port, &spec, pipe, fault))
        return false;
    if (flow_queued(port, shim_list_add(*pipe, &list, port, NULL), fault, "adding the list that translates") &&
        flow_wait(port, fault))
        return true;
    pipe_discard(port, pipe);
    return false;
}

/* Behind the translation: the mark is the key, u32[0..2] are gone. */
static bool open_rewrite(struct flow_port *port, struct doca_flow_actions *template, uint32_t entries,
                         uint16_t leave_by, const char *name, struct doca_flow_pipe **pipe, struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_fwd fwd = fwd_port(leave_by), drop = fwd_drop();
    struct pipe_spec spec = {.name = name, .type = DOCA_FLOW_PIPE_BASIC, .miss_counter = true, .entries = entries,
                             .match = &match, .mask = &mask, .templates = {template}, .template_count = 1,
                             .fwd = &fwd, .miss = &drop};

    return pipe_create(port, &spec, pipe, fault);
}

bool translate_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, struct fault *fault)
{
    struct flow_port *in = &flow->ports[PORT_IN], *out = &flow->ports[PORT_OUT];
    struct address all4 = {.family = 4}, all6 = {.family = 6};
    struct doca_flow_actions query = {0}, answer = {0};

    if (budgets->backends == 0)
        return fault_set(fault, "$.budgets.backends: found 0, expected one or more for translations");
    memset(all4.bytes, 0xff, 4);
    memset(all6.bytes, 0xff, 16);
    query.meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN);
    memset(query.outer.eth.dst_mac, 0xff, 6);
    put_destination(&query.outer, &all6);
    put_source(&answer.outer, &all4);
    return (delivery->translated != NULL ||
            open_rewrite(in, &query, budgets->backends, PORT_OUT, "translated", &delivery->translated, fault)) &&
           (delivery->to_ip6 != NULL ||
            open_list(in, DOCA_FLOW_L3_TYPE_IP4, delivery->translated, &delivery->to_ip6, fault)) &&
           (delivery->answers != NULL ||
            open_rewrite(out, &answer, 2 * budgets->vips, PORT_IN, "answers", &delivery->answers, fault)) &&
           (delivery->to_ip4 != NULL ||
            open_list(out, DOCA_FLOW_L3_TYPE_IP6, delivery->answers, &delivery->to_ip4, fault));
}

#else

bool translate_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, struct fault *fault)
{
    (void)delivery;
    (void)flow;
    (void)budgets;
    return fault_set(fault, "forward siit needs DOCA 3.3, whose ordered lists translate; this is DOCA %s",
                     DOCA_VERSION_STRING);
}

#endif

static void fill_query(const struct backend *backend, struct doca_flow_actions *actions)
{
    memset(actions, 0, sizeof(*actions));
    memcpy(actions->outer.eth.dst_mac, backend->mac, 6);
    put_destination(&actions->outer, &backend->address);
}

bool translation_add(struct delivery *delivery, struct flow_port *in, uint32_t mark, const struct backend *backend,
                     struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(mark)}};
    struct doca_flow_actions actions;

    fill_query(backend, &actions);
    return flow_queued(in, shim_basic_add(delivery->translated, &match, 0, &actions, in, entry), fault,
                       "adding a translation");
}

bool translation_update(struct delivery *delivery, struct flow_port *in, const struct backend *backend,
                        struct doca_flow_pipe_entry *entry, struct fault *fault)
{
    struct doca_flow_actions actions;

    fill_query(backend, &actions);
    return update_entry(in, delivery->translated, 0, &actions, entry, fault, "updating a translation");
}

bool answer_add(struct delivery *delivery, struct flow_port *out, uint32_t mark, const struct address *vip,
                struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(mark)}};
    struct doca_flow_actions actions = {0};

    put_source(&actions.outer, vip);
    return flow_queued(out, shim_basic_add(delivery->answers, &match, 0, &actions, out, entry), fault,
                       "adding the source of answers");
}
