/* SPDX-License-Identifier: Apache-2.0 */
/* Actions on a packet: the operations are done in order, then checksums are corrected. */
#include <string.h>

#include "actions.h"
#include "bytes.h"
#include "core.h"
#include "nat64.h"
#include "scratch.h"

/* What the checksums of the outer headers are made of, summed before and after. */
struct sums {
    uint32_t ip4; /* header without its checksum */
    uint32_t addresses;
    uint32_t l4; /* header without its checksum */
};

static struct sums sum_up(const struct packet *packet)
{
    const struct layer *outer = &packet->layer[0];
    const uint8_t *ip = packet->data + outer->l3_off, *l4 = packet->data + outer->l4_off;
    struct sums sums = {0};

    if (outer->l3 == DOCA_FLOW_L3_META_IPV4) {
        sums.addresses = sum_add(0, ip + 12, 8);
        sums.ip4 = sum_add(sum_add(0, ip, 10), ip + 12, outer->l3_len - 12);
    } else if (outer->l3 == DOCA_FLOW_L3_META_IPV6) {
        sums.addresses = sum_add(0, ip + 8, 32);
    }
    if (outer->l4 == DOCA_FLOW_L4_META_TCP)
        sums.l4 = sum_add(sum_add(0, l4, 16), l4 + 18, 2);
    else if (outer->l4 == DOCA_FLOW_L4_META_UDP)
        sums.l4 = sum_add(0, l4, 6);
    else if (outer->l4 == DOCA_FLOW_L4_META_ICMP)
        sums.l4 = sum_add(sum_add(0, l4, 2), l4 + 4, 4);
    return sums;
}

/* Incremental, as RFC 1624 has it: a wrong checksum stays wrong, a UDP checksum of 0 stays "none". */
static void fix_checksums(struct packet *packet, struct sums before)
{
    const struct layer *outer = &packet->layer[0];
    uint8_t *ip = packet->data + outer->l3_off, *l4 = packet->data + outer->l4_off, *at;
    struct sums after = sum_up(packet);
    bool addresses = outer->l4 != DOCA_FLOW_L4_META_ICMP || outer->proto == DOCA_FLOW_PROTO_ICMP6;
    uint16_t checksum;

    if (outer->l3 == DOCA_FLOW_L3_META_IPV4 && before.ip4 != after.ip4)
        be16_put(ip + 10, checksum_update(be16_get(ip + 10), before.ip4, after.ip4));
    if (outer->l4 == DOCA_FLOW_L4_META_NONE || outer->l4 == DOCA_FLOW_L4_META_ESP)
        return;
    at = l4 + (outer->l4 == DOCA_FLOW_L4_META_TCP ? 16 : outer->l4 == DOCA_FLOW_L4_META_UDP ? 6 : 2);
    checksum = be16_get(at);
    if (outer->l4 == DOCA_FLOW_L4_META_UDP && checksum == 0)
        return;
    if (before.l4 != after.l4)
        checksum = checksum_update(checksum, before.l4, after.l4);
    if (addresses && before.addresses != after.addresses)
        checksum = checksum_update(checksum, before.addresses, after.addresses);
    if (outer->l4 == DOCA_FLOW_L4_META_UDP && checksum == 0)
        checksum = 0xffff;
    be16_put(at, checksum);
}

static void apply_op(const struct op *op, struct packet *packet)
{
    uint8_t number[FIELD_MAX] = {0}, source[FIELD_MAX] = {0};
    size_t size = op->dst.field->size;

    if (!field_read(packet, op->dst, number))
        return;
    switch (op->kind) {
    case OP_SET:
        for (size_t i = 0; i < size; i++)
            number[i] = (uint8_t)((number[i] & ~op->mask[i]) | (op->value[i] & op->mask[i]));
        break;
    case OP_COPY:
        if (!field_read(packet, op->src, source))
            return;
        number_copy(number, size, op->dst_bit, source, op->src.field->size, op->src_bit, op->width);
        break;
    case OP_ADD:
    default:
        if (op->has_src) {
            if (!field_read(packet, op->src, source))
                return;
            number_add(number, size, op->dst_bit, source, op->src.field->size, op->src_bit, op->width);
        } else {
            number_add(number, size, op->dst_bit, op->value, size, op->dst_bit, op->width);
        }
        break;
    }
    field_write(packet, op->dst, number);
}

/* Meta data is no part of the frame; MAC addresses and VLAN tags are under no checksum, and tell the parser nothing. */
static bool changes_ip(const struct action_set *set)
{
    for (size_t i = 0; i < set->op_count; i++)
        switch (set->ops[i].dst.field->header) {
        case HEADER_META:
        case HEADER_PARSER:
        case HEADER_ETH:
        case HEADER_VLAN0:
        case HEADER_VLAN1:
            break;
        case HEADER_ETH_TYPE:
        case HEADER_IP4:
        case HEADER_IP6:
        case HEADER_PORTS:
        case HEADER_TCP:
        case HEADER_ICMP:
        case HEADER_VXLAN:
        default:
            return true;
        }
    return false;
}

static void apply_ops(const struct action_set *set, struct packet *packet)
{
    bool whole = changes_ip(set);
    struct sums before = {0};

    if (whole)
        before = sum_up(packet);
    for (size_t i = 0; i < set->op_count; i++)
        apply_op(&set->ops[i], packet);
    if (whole) {
        fix_checksums(packet, before);
        packet_parse(packet);
    }
}

static enum actions_outcome fail(enum actions_outcome outcome, const char **why, const char *text)
{
    *why = text;
    return outcome;
}

enum actions_outcome actions_apply(const struct action_set *set, struct packet *packet, const char **why)
{
    if (set->decap && !decap_apply(&set->decap_header, packet))
        return fail(ACTIONS_UNPROVEN, why, "decap of a packet without such a tunnel");
    if (set->pop_vlan && !vlan_pop(packet))
        return fail(ACTIONS_UNPROVEN, why, "pop of a packet without a VLAN tag");
    if (set->nat64 != DOCA_FLOW_L3_TYPE_NONE) {
        switch (nat64_apply(packet, set->nat64, doca_flow_model_is_strict(), why)) {
        case NAT64_UNPROVEN:
            return ACTIONS_UNPROVEN;
        case NAT64_NO_ROOM:
            return fail(ACTIONS_BROKEN, why, "no room for a longer header");
        case NAT64_OTHER:
            return fail(ACTIONS_UNPROVEN, why, "NAT64 of a packet of the other IP version, or of none");
        case NAT64_DONE:
        default:
            scratch_clobber(packet, SCRATCH_NAT64);
            break;
        }
    }
    apply_ops(set, packet);
    if (set->push_vlan && !vlan_push(packet, set->push_type, set->push_tci))
        return fail(ACTIONS_BROKEN, why, "no room for a VLAN tag");
    if (set->encap && !encap_apply(&set->encap_header, packet))
        return fail(ACTIONS_UNPROVEN, why, "encap of a packet that is not IP, or that would grow too long");
    return ACTIONS_DONE;
}
