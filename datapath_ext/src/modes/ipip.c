/* SPDX-License-Identifier: Apache-2.0 */
/* ipip: in an IP packet to the backend, which decapsulates and owns the VIP: 4in4, 6in4, 4in6 or 6in6. Tunnels are pipes
 * in the egress domain of the port out, entered by a forward to the root one, as in the only public program that
 * encapsulates IP in IP; the mark chooses the tunnel. */
#include "forward.h"

#include <doca_bitfield.h>
#include <string.h>

#include "compat.h"
#include "log.h"

enum { HOPS = 64, HEADER4 = 20, HEADER6 = 40, USUAL_MTU = 1500 };
enum { ENCAP4, ENCAP6, PLAIN }; /* egress of the port out */

static bool check_backend(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                          struct fault *fault)
{
    const struct backend *backend = &program->backends[vip->slots[slot]];
    unsigned family = backend->address.family;

    if (!check_backend_address(program, vip, number, slot, fault))
        return false;
    return (family == 4 ? program->tunnel_ip4.family : program->tunnel_ip6.family) != 0 ||
           fault_set(fault, "$.tunnel: found no IPv%u source address, expected one (vip %s has tunnels to backend "
                     "%s)", family, vip->name, backend->name);
}

/* What all tunnels of one outer and one inner IP version have in common; 0 is what the rest has. ECN stays 0, "not
 * capable": a tunnel's end that does not carry a mark over to the packet inside must not be sent any (RFC 6040, 4.3), and
 * decap.bpf.c does not. */
static struct doca_flow_header_format *fill_common(struct doca_flow_actions *actions, unsigned outer, unsigned inner)
{
    struct doca_flow_header_format *header = &actions->encap_cfg.encap.outer;
    uint8_t protocol = inner == 4 ? DOCA_FLOW_PROTO_IPV4 : DOCA_FLOW_PROTO_IPV6;

    memset(actions, 0, sizeof(*actions));
    actions->encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    actions->encap_cfg.is_l2 = false; /* the tunnel's Ethernet header takes the place of the packet's */
    actions->encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    if (outer == 4) {
        header->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV4);
        header->ip4.ttl = HOPS;
        header->ip4.next_proto = protocol;
    } else {
        header->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV6);
        header->ip6.hop_limit = HOPS;
        header->ip6.next_proto = protocol;
    }
    return header;
}

/* Entries bring MAC and IP addresses, and the flags of IPv4, as public programs do. */
static void fill_template(struct doca_flow_actions *template, unsigned outer, unsigned inner)
{
    struct doca_flow_header_format *header = fill_common(template, outer, inner);
    struct address all = {.family = outer};

    memset(all.bytes, 0xff, sizeof(all.bytes));
    memset(header->eth.src_mac, 0xff, 6);
    memset(header->eth.dst_mac, 0xff, 6);
    put_source(header, &all);
    put_destination(header, &all);
    if (outer == 4)
        header->ip4.flags_fragment_offset = UINT16_MAX;
}

static bool open_encap(struct flow_port *out, unsigned outer, const struct budgets *budgets,
                       struct doca_flow_pipe *miss, struct doca_flow_pipe **pipe, struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_actions inner4, inner6;
    struct doca_flow_fwd fwd = fwd_port(PORT_OUT), next = fwd_pipe(miss);
    struct pipe_spec spec = {.name = outer == 4 ? "encap4" : "encap6", .type = DOCA_FLOW_PIPE_BASIC,
                             .root = outer == 4, .egress = true, .entries = budgets_target_entries(budgets), .match = &match,
                             .mask = &mask, .templates = {&inner4, &inner6}, .template_count = 2, .fwd = &fwd,
                             .miss = &next};

    fill_template(&inner4, outer, 4);
    fill_template(&inner6, outer, 6);
    return pipe_create(out, &spec, pipe, fault);
}

/* Packets of other modes leave by a forward to the port. Up to DOCA 3.0 that led through the port's egress root, and the
 * notes of one public program say so of 3.3 too; so they have a way through. What has no known mark is dropped and
 * counted. */
static bool open_plain(struct flow_port *out, struct doca_flow_pipe **pipe, struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(MARK_PLAIN)}};
    struct doca_flow_match mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_fwd fwd = fwd_port(PORT_OUT), drop = fwd_drop();
    struct pipe_spec spec = {.name = "plain", .type = DOCA_FLOW_PIPE_BASIC, .egress = true, .miss_counter = true,
                             .entries = 1, .match = &match, .mask = &mask, .fwd = &fwd, .miss = &drop};

    if (!pipe_create(out, &spec, pipe, fault))
        return false;
    if (flow_queued(out, compat_basic_add(*pipe, &match, 0, NULL, out, NULL), fault,
                    "adding the entry for packets without a tunnel") &&
        flow_wait(out, fault))
        return true;
    pipe_discard(out, pipe);
    return false;
}

/* From the last to the first: once the root is there, packets of running VIPs go through all of them. */
static bool open_pipes(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                       struct fault *fault)
{
    struct flow_port *out = &flow->ports[PORT_OUT];
    struct doca_flow_pipe **pipe = pipes->pipes;

    if (budgets->backends == 0)
        return fault_set(fault, "$.budgets.backends: found 0, expected one or more for tunnels");
    return (pipe[PLAIN] != NULL || open_plain(out, &pipe[PLAIN], fault)) &&
           (pipe[ENCAP6] != NULL || open_encap(out, 6, budgets, pipe[PLAIN], &pipe[ENCAP6], fault)) &&
           (pipe[ENCAP4] != NULL || open_encap(out, 4, budgets, pipe[ENCAP6], &pipe[ENCAP4], fault));
}

static struct doca_flow_fwd slots_fwd(const struct forward_pipes *pipes)
{
    return fwd_pipe(pipes->pipes[ENCAP4]);
}

static struct target_headers tunnel_headers(const struct program *program, const struct backend *backend)
{
    struct target_headers headers = {.src = backend->address.family == 4 ? program->tunnel_ip4 : program->tunnel_ip6,
                                     .dst = backend->address};

    memcpy(headers.src_mac, program->tunnel_mac, 6);
    memcpy(headers.dst_mac, backend->mac, 6);
    return headers;
}

/* The template's constants are repeated: one public program found zeros on the wire where entries leave them out. */
static void fill_entry(const struct target_headers *headers, unsigned inner, struct doca_flow_actions *actions)
{
    struct doca_flow_header_format *header = fill_common(actions, headers->dst.family, inner);

    memcpy(header->eth.src_mac, headers->src_mac, 6);
    memcpy(header->eth.dst_mac, headers->dst_mac, 6);
    put_source(header, &headers->src);
    put_destination(header, &headers->dst);
    if (headers->dst.family == 4) /* the identification is 0 in all packets (RFC 6864) */
        header->ip4.flags_fragment_offset = DOCA_HTOBE16(DOCA_FLOW_IP4_FLAG_DONT_FRAGMENT);
}

static struct doca_flow_pipe *encap_pipe(const struct forward_pipes *pipes, const struct target_headers *headers)
{
    return pipes->pipes[headers->dst.family == 4 ? ENCAP4 : ENCAP6];
}

/* Said once for IPv4 and once for IPv6 outside: what is longer is lost, and nobody else says so. */
static void warn_of_mtu(struct flow_port *out, unsigned outer)
{
    unsigned header = outer == 4 ? HEADER4 : HEADER6;

    if (out->mtu == 0 || out->mtu >= USUAL_MTU + header || out->mtu_told & 1U << outer)
        return;
    out->mtu_told |= 1U << outer;
    log_event(LOG_WARNING, "mtu", "{s:s, s:i, s:i, s:i, s:i}", "port", out->name, "found", (int)out->mtu, "expected",
              (int)(USUAL_MTU + header), "tunnel_family", (int)outer, "longest_packet", (int)(out->mtu - header));
}

static bool add_tunnel(const struct forward_pipes *pipes, struct flow_port *out, uint32_t mark, unsigned inner,
                       const struct target_headers *headers, struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(mark)}};
    struct doca_flow_actions actions;

    warn_of_mtu(out, headers->dst.family);
    fill_entry(headers, inner, &actions);
    return flow_queued(out, compat_basic_add(encap_pipe(pipes, headers), &match, inner == 4 ? 0 : 1, &actions, out,
                                             entry), fault, "adding a tunnel");
}

static bool update_tunnel(const struct forward_pipes *pipes, struct flow_port *out, unsigned inner,
                          const struct target_headers *headers, struct doca_flow_pipe_entry *entry,
                          struct fault *fault)
{
    struct doca_flow_actions actions;

    fill_entry(headers, inner, &actions);
    return update_entry(out, encap_pipe(pipes, headers), inner == 4 ? 0 : 1, &actions, entry, fault,
                        "updating a tunnel");
}

static const struct target_ops targets = {
    .port = PORT_OUT,
    .headers = tunnel_headers,
    .add = add_tunnel,
    .update = update_tunnel,
};

const struct forward_ops forward_ipip = {
    .name = "ipip",
    .check_backend = check_backend,
    .open = open_pipes,
    .slots_fwd = slots_fwd,
    .drop_pipes = 1U << PLAIN,
    .slot_template = slot_mark_template,
    .slot_content = slot_mark_content,
    .slot_actions = slot_mark_actions,
    .slot_report = slot_mark_report,
    .targets = &targets,
};
