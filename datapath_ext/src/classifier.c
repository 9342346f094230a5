/* SPDX-License-Identifier: Apache-2.0 */
#include "classifier.h"

#include <doca_bitfield.h>
#include <string.h>

#include "compat.h"

static const char *const drop_reason_names[DROP_REASONS] = {"malformed_ipv4", "malformed_ipv6", "ipv4_checksum",
                                                            "fragment", "fragment", "other"};

const char *drop_reason_name(enum drop_reason reason)
{
    return drop_reason_names[reason];
}

static bool add(struct classifier *classifier, const struct doca_flow_match *match, const struct doca_flow_match *mask,
                const struct doca_flow_meta *meta, uint32_t priority, const struct doca_flow_fwd *fwd,
                struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    const struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_actions actions = {0}, actions_mask = {0};
    doca_error_t result;

    if (meta != NULL) {
        actions.meta = *meta;
        actions_mask.meta.pkt_meta = meta->pkt_meta != 0 ? UINT32_MAX : 0;
        actions_mask.meta.u32[1] = meta->u32[1] != 0 ? UINT32_MAX : 0;
    }
    /* Only dropped packets are counted here: the others' slots count them. */
    result = compat_control_add(classifier->pipe, match, mask, meta != NULL ? &actions : NULL,
                              meta != NULL ? &actions_mask : NULL, meta == NULL ? &monitor : NULL, priority, fwd,
                              classifier->port, entry);
    return flow_queued(classifier->port, result, fault, "adding an entry to the classifier");
}

static bool add_drop(struct classifier *classifier, enum drop_reason reason, struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_fwd drop = fwd_drop();

    switch (reason) {
    case DROP_MALFORMED4:
    case DROP_MALFORMED6:
        match.parser_meta.outer_l3_type = reason == DROP_MALFORMED4 ? DOCA_FLOW_L3_META_IPV4 : DOCA_FLOW_L3_META_IPV6;
        mask.parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
        mask.parser_meta.outer_l3_ok = UINT8_MAX; /* must be 0 */
        break;
    case DROP_CHECKSUM:
        match.parser_meta.outer_l3_type = DOCA_FLOW_L3_META_IPV4;
        mask.parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
        match.parser_meta.outer_l3_ok = 1;
        mask.parser_meta.outer_l3_ok = UINT8_MAX;
        mask.parser_meta.outer_ip4_checksum_ok = UINT8_MAX;
        break;
    case DROP_FRAGMENT4:
    case DROP_FRAGMENT6:
        match.parser_meta.outer_l3_type = reason == DROP_FRAGMENT4 ? DOCA_FLOW_L3_META_IPV4 : DOCA_FLOW_L3_META_IPV6;
        mask.parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
        match.parser_meta.outer_l3_ok = 1;
        mask.parser_meta.outer_l3_ok = UINT8_MAX;
        match.parser_meta.outer_ip_fragmented = 1;
        mask.parser_meta.outer_ip_fragmented = UINT8_MAX;
        if (reason == DROP_FRAGMENT4) { /* IPv6 has no header checksum, and this bit is 0 then */
            match.parser_meta.outer_ip4_checksum_ok = 1;
            mask.parser_meta.outer_ip4_checksum_ok = UINT8_MAX;
        }
        break;
    case DROP_OTHER:
    case DROP_REASONS:
    default:
        break;
    }
    return add(classifier, &match, &mask, NULL, reason == DROP_OTHER ? PRIORITY_DEFAULT : PRIORITY_DROP, &drop,
               &classifier->drops[reason], fault);
}

bool classifier_open(struct classifier *classifier, struct flow_port *port, uint32_t entries, struct fault *fault)
{
    const struct pipe_spec spec = {.name = "classifier", .type = DOCA_FLOW_PIPE_CONTROL, .root = true,
                                   .entries = entries + DROP_REASONS};

    *classifier = (struct classifier){.port = port};
    if (!pipe_create(port, &spec, &classifier->pipe, fault))
        return false;
    for (enum drop_reason reason = DROP_MALFORMED4; reason < DROP_REASONS; reason++)
        if (!add_drop(classifier, reason, fault))
            return false;
    return flow_wait(port, fault);
}

/* A whole, unfragmented packet of this version and protocol. */
static void match_packet(struct doca_flow_match *match, struct doca_flow_match *mask, unsigned family,
                         uint8_t protocol)
{
    match->parser_meta.outer_l3_type = family == 4 ? DOCA_FLOW_L3_META_IPV4 : DOCA_FLOW_L3_META_IPV6;
    mask->parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
    match->parser_meta.outer_l4_type = protocol == 17 ? DOCA_FLOW_L4_META_UDP : DOCA_FLOW_L4_META_TCP;
    mask->parser_meta.outer_l4_type = (enum doca_flow_l4_meta)UINT32_MAX;
    match->parser_meta.outer_l4_ok = 1;
    mask->parser_meta.outer_l4_ok = UINT8_MAX;
    mask->parser_meta.outer_ip_fragmented = UINT8_MAX;
    match->outer.l3_type = mask->outer.l3_type = family == 4 ? DOCA_FLOW_L3_TYPE_IP4 : DOCA_FLOW_L3_TYPE_IP6;
    match->outer.l4_type_ext = mask->outer.l4_type_ext =
        protocol == 17 ? DOCA_FLOW_L4_TYPE_EXT_UDP : DOCA_FLOW_L4_TYPE_EXT_TCP;
}

/* Two entries of one match are not supported, and control pipes have no call that updates one. So the entry of the upper
 * level asks for one bit more, which every packet has that PRIORITY_DROP let pass: the matches overlap and differ. */
static void match_level(struct doca_flow_match *match, struct doca_flow_match *mask, uint32_t priority)
{
    if (priority != PRIORITY_HIGH && priority != PRIORITY_PROBE_HIGH)
        return;
    match->parser_meta.outer_l3_ok = 1;
    mask->parser_meta.outer_l3_ok = UINT8_MAX;
}

static struct doca_flow_header_l4_port *ports_of(struct doca_flow_match *match)
{
    return match->outer.l4_type_ext == DOCA_FLOW_L4_TYPE_EXT_UDP ? &match->outer.udp.l4_port
                                                                 : &match->outer.tcp.l4_port;
}

bool classifier_add(struct classifier *classifier, const struct vip *vip, uint32_t id, uint32_t priority,
                    struct doca_flow_pipe *next, struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct address all = {.family = vip->address.family};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_meta meta = {0};
    struct doca_flow_fwd fwd = fwd_pipe(next);

    memset(all.bytes, 0xff, sizeof(all.bytes));
    match_packet(&match, &mask, vip->address.family, vip->protocol);
    put_destination(&match.outer, &vip->address);
    put_destination(&mask.outer, &all);
    ports_of(&match)->dst_port = DOCA_HTOBE16(vip->port);
    ports_of(&mask)->dst_port = UINT16_MAX;
    if (vip->probe != NULL) {
        memcpy(match.outer.eth.dst_mac, vip->probe->mac, 6);
        memset(mask.outer.eth.dst_mac, 0xff, 6);
    }
    meta.u32[1] = DOCA_HTOBE32(id);
    match_level(&match, &mask, priority);
    return add(classifier, &match, &mask, &meta, priority, &fwd, entry, fault);
}

bool classifier_add_answer(struct classifier *classifier, const struct vip *vip, const struct address *backend,
                           const struct prefix *clients, uint32_t id, uint32_t priority,
                           const struct doca_flow_fwd *fwd, struct doca_flow_pipe_entry **entry, struct fault *fault)
{
    struct address all = {.family = backend->family}, prefix = {.family = backend->family};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_meta meta = {.pkt_meta = DOCA_HTOBE32(id)};

    memset(all.bytes, 0xff, sizeof(all.bytes));
    memset(prefix.bytes, 0xff, clients->length / 8);
    match_packet(&match, &mask, backend->family, vip->protocol);
    put_source(&match.outer, backend);
    put_source(&mask.outer, &all);
    put_destination(&match.outer, &clients->address);
    put_destination(&mask.outer, &prefix);
    ports_of(&match)->src_port = DOCA_HTOBE16(vip->port);
    ports_of(&mask)->src_port = UINT16_MAX;
    match_level(&match, &mask, priority);
    return add(classifier, &match, &mask, &meta, priority, fwd, entry, fault);
}
