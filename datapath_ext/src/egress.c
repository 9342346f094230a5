#include "egress.h"

#include <doca_bitfield.h>
#include <string.h>

#include "shim.h"

enum { HOPS = 64 };

/* A template for one outer and one inner IP version; entries bring MAC and IP addresses. */
static void fill_template(struct doca_flow_actions *template, unsigned outer, unsigned inner)
{
    struct doca_flow_header_format *header = &template->encap_cfg.encap.outer;
    struct address all = {.family = outer};
    uint8_t protocol = inner == 4 ? DOCA_FLOW_PROTO_IPV4 : DOCA_FLOW_PROTO_IPV6;

    memset(template, 0, sizeof(*template));
    memset(all.bytes, 0xff, sizeof(all.bytes));
    template->encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    template->encap_cfg.is_l2 = false; /* the tunnel's Ethernet header takes the place of the packet's */
    template->encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    memset(header->eth.src_mac, 0xff, 6);
    memset(header->eth.dst_mac, 0xff, 6);
    put_source(header, &all);
    put_destination(header, &all);
    if (outer == 4) {
        header->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV4);
        header->ip4.ttl = HOPS;
        header->ip4.next_proto = protocol;
    } else {
        header->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV6);
        header->ip6.hop_limit = HOPS;
        header->ip6.next_proto = protocol;
    }
}

static bool open_encap(struct flow_port *out, unsigned outer, const struct budgets *budgets,
                       struct doca_flow_pipe *miss, struct doca_flow_pipe **pipe, struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_actions inner4, inner6;
    struct doca_flow_fwd fwd = fwd_port(PORT_OUT), next = fwd_pipe(miss);
    struct pipe_spec spec = {.name = outer == 4 ? "encap4" : "encap6", .type = DOCA_FLOW_PIPE_BASIC,
                             .root = outer == 4, .egress = true, .entries = budgets->backends, .match = &match,
                             .mask = &mask, .templates = {&inner4, &inner6}, .template_count = 2, .fwd = &fwd,
                             .miss = &next};

    fill_template(&inner4, outer, 4);
    fill_template(&inner6, outer, 6);
    return pipe_create(out, &spec, pipe, fault);
}

/* What leaves as it is. What has no mark of ours is nobody's, and dropped. */
static bool open_plain(struct delivery *delivery, struct flow_port *out, struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(MARK_PLAIN)}};
    struct doca_flow_match mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_fwd fwd = fwd_port(PORT_OUT), drop = fwd_drop();
    struct pipe_spec spec = {.name = "plain", .type = DOCA_FLOW_PIPE_BASIC, .egress = true, .miss_counter = true,
                             .entries = 1, .match = &match, .mask = &mask, .fwd = &fwd, .miss = &drop};

    if (!pipe_create(out, &spec, &delivery->plain, fault))
        return false;
    if (flow_queued(out, shim_basic_add(delivery->plain, &match, 0, NULL, out, NULL), fault,
                    "adding the entry for packets without a tunnel") &&
        flow_wait(out, fault))
        return true;
    pipe_discard(out, &delivery->plain);
    return false;
}

/* From the last to the first: once the root is there, packets of running VIPs go through all of them. What opened
 * before a failure stays, does no harm, and is used by the next try. */
bool egress_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, struct fault *fault)
{
    struct flow_port *out = &flow->ports[PORT_OUT];

    if (budgets->backends == 0)
        return fault_set(fault, "$.budgets.backends: found 0, expected one or more for tunnels");
    return (delivery->plain != NULL || open_plain(delivery, out, fault)) &&
           (delivery->encap6 != NULL || open_encap(out, 6, budgets, delivery->plain, &delivery->encap6, fault)) &&
           (delivery->encap4 != NULL || open_encap(out, 4, budgets, delivery->encap6, &delivery->encap4, fault));
}

static void fill_entry(const struct tunnel *tunnel, struct doca_flow_actions *actions)
{
    struct doca_flow_header_format *header = &actions->encap_cfg.encap.outer;

    memset(actions, 0, sizeof(*actions));
    actions->encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    memcpy(header->eth.src_mac, tunnel->src_mac, 6);
    memcpy(header->eth.dst_mac, tunnel->dst_mac, 6);
    put_source(header, &tunnel->src);
    put_destination(header, &tunnel->dst);
}

bool tunnel_add(struct delivery *delivery, struct flow_port *out, uint32_t mark, unsigned inner,
                const struct tunnel *tunnel, struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct doca_flow_pipe *pipe = tunnel->dst.family == 4 ? delivery->encap4 : delivery->encap6;
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(mark)}};
    struct doca_flow_actions actions;

    fill_entry(tunnel, &actions);
    return flow_queued(out, shim_basic_add(pipe, &match, inner == 4 ? 0 : 1, &actions, out, entry), fault,
                       "adding a tunnel");
}

bool tunnel_update(struct delivery *delivery, struct flow_port *out, unsigned inner, const struct tunnel *tunnel,
                   struct doca_flow_pipe_entry *entry, struct fault *fault)
{
    struct doca_flow_pipe *pipe = tunnel->dst.family == 4 ? delivery->encap4 : delivery->encap6;
    struct doca_flow_actions actions;

    fill_entry(tunnel, &actions);
    return update_entry(out, pipe, inner == 4 ? 0 : 1, &actions, entry, fault, "updating a tunnel");
}
