/* SPDX-License-Identifier: Apache-2.0 */
/* The packet parser: Ethernet, VLAN tags, IPv4, IPv6, TCP, UDP, ICMP, ESP; inside of IP-in-IP and VXLAN once more.
 * Every offset is checked against the bytes that are there, never against what a length field claims. */
#include <string.h>

#include "bytes.h"
#include "packet.h"

enum { PROTO_HOPOPT = 0, PROTO_ROUTING = 43, PROTO_FRAGMENT = 44, PROTO_AH = 51, PROTO_DSTOPT = 60 };
enum { ETHER_TYPE_QINQ = 0x88a8 };

static bool l4_checksum_ok(const struct packet *packet, const struct layer *layer)
{
    const uint8_t *ip = packet->data + layer->l3_off, *l4 = packet->data + layer->l4_off;
    uint32_t length = layer->end - layer->l4_off, sum = layer->proto;

    if (layer->l4 == DOCA_FLOW_L4_META_UDP) {
        if (be16_get(l4 + 6) == 0)
            return true; /* "none": over IPv6 too, as public packets have it */
        length = be16_get(l4 + 4);
    }
    sum += length;
    sum = layer->l3 == DOCA_FLOW_L3_META_IPV4 ? sum_add(sum, ip + 12, 8) : sum_add(sum, ip + 8, 32);
    if (layer->proto == DOCA_FLOW_PROTO_ICMP)
        sum = 0;
    return sum_fold(sum_add(sum, l4, length)) == 0xffff;
}

static void parse_l4(const struct packet *packet, struct layer *layer)
{
    const uint8_t *l4 = packet->data + layer->l4_off;
    size_t room = layer->end - layer->l4_off;

    switch (layer->proto) {
    case DOCA_FLOW_PROTO_TCP:
        if (room < 20)
            return;
        layer->l4 = DOCA_FLOW_L4_META_TCP;
        layer->l4_ok = l4[12] >> 4 >= 5 && (size_t)(l4[12] >> 4) * 4 <= room;
        break;
    case DOCA_FLOW_PROTO_UDP:
        if (room < 8)
            return;
        layer->l4 = DOCA_FLOW_L4_META_UDP;
        layer->l4_ok = be16_get(l4 + 4) >= 8 && (be16_get(l4 + 4) <= room || layer->fragment);
        break;
    case DOCA_FLOW_PROTO_ICMP:
    case DOCA_FLOW_PROTO_ICMP6:
        if (room < 8)
            return;
        layer->l4 = DOCA_FLOW_L4_META_ICMP;
        layer->l4_ok = true;
        break;
    case DOCA_FLOW_PROTO_ESP:
        if (room < 8)
            return;
        layer->l4 = DOCA_FLOW_L4_META_ESP;
        layer->l4_ok = layer->l4_checksum_ok = true;
        return;
    default:
        return;
    }
    layer->l4_checksum_ok = layer->l4_ok && layer->l3_ok && !layer->fragment && l4_checksum_ok(packet, layer);
}

static bool parse_ip4(const struct packet *packet, struct layer *layer)
{
    const uint8_t *ip = packet->data + layer->l3_off;
    size_t room = packet->length - layer->l3_off, header, total;
    bool later;

    if (room < 20 || ip[0] >> 4 != 4 || (ip[0] & 0xf) < 5 || (size_t)(ip[0] & 0xf) * 4 > room)
        return false;
    header = (size_t)(ip[0] & 0xf) * 4;
    total = be16_get(ip + 2);
    layer->l3 = DOCA_FLOW_L3_META_IPV4;
    layer->l3_len = (uint32_t)header;
    layer->l3_ok = total >= header && total <= room;
    layer->end = layer->l3_off + (uint32_t)(layer->l3_ok ? total : room);
    layer->ip4_checksum_ok = sum_fold(sum_add(0, ip, header)) == 0xffff;
    layer->proto = ip[9];
    layer->fragment = (be16_get(ip + 6) & 0x3fff) != 0;
    later = (be16_get(ip + 6) & 0x1fff) != 0;
    layer->l4_off = layer->l3_off + (uint32_t)header;
    return !later;
}

static bool parse_ip6(const struct packet *packet, struct layer *layer)
{
    const uint8_t *ip = packet->data + layer->l3_off;
    size_t room = packet->length - layer->l3_off, at = 40, total;
    bool later = false;

    if (room < 40 || ip[0] >> 4 != 6)
        return false;
    total = 40U + be16_get(ip + 4);
    layer->l3 = DOCA_FLOW_L3_META_IPV6;
    layer->l3_ok = total <= room;
    room = layer->l3_ok ? total : room;
    layer->end = layer->l3_off + (uint32_t)room;
    layer->proto = ip[6];
    while (!later && at + 8 <= room) {
        size_t length;

        if (layer->proto == PROTO_FRAGMENT) {
            layer->fragment = true;
            later = (be16_get(ip + at + 2) & 0xfff8) != 0;
            length = 8;
        } else if (layer->proto == PROTO_AH) {
            length = 4 * ((size_t)ip[at + 1] + 2);
        } else if (layer->proto == PROTO_HOPOPT || layer->proto == PROTO_ROUTING || layer->proto == PROTO_DSTOPT) {
            length = 8 * ((size_t)ip[at + 1] + 1);
        } else {
            break;
        }
        if (at + length > room) {
            layer->l3_ok = false;
            later = true;
            break;
        }
        layer->proto = ip[at];
        at += length;
    }
    layer->l3_len = (uint32_t)at;
    layer->l4_off = layer->l3_off + (uint32_t)at;
    return !later;
}

/* Returns whether the layer has a whole, unfragmented start of its payload. */
static bool parse_ip(const struct packet *packet, struct layer *layer, uint16_t type)
{
    bool payload = false;

    if (type == DOCA_FLOW_ETHER_TYPE_IPV4)
        payload = parse_ip4(packet, layer);
    else if (type == DOCA_FLOW_ETHER_TYPE_IPV6)
        payload = parse_ip6(packet, layer);
    payload = payload && layer->l4_off <= layer->end;
    if (payload)
        parse_l4(packet, layer);
    return payload;
}

static bool parse_eth(const struct packet *packet, struct layer *layer, uint32_t at)
{
    uint16_t type;

    if (packet->length < (size_t)at + 14)
        return false;
    layer->eth = true;
    layer->eth_off = at;
    layer->type_off = at + 12;
    type = be16_get(packet->data + layer->type_off);
    while ((type == DOCA_FLOW_ETHER_TYPE_VLAN || type == ETHER_TYPE_QINQ) && layer->vlans < DOCA_FLOW_VLAN_MAX &&
           packet->length >= (size_t)layer->type_off + 6) {
        layer->vlan_off[layer->vlans++] = layer->type_off + 2;
        layer->type_off += 4;
        type = be16_get(packet->data + layer->type_off);
    }
    layer->l3_off = layer->type_off + 2;
    return parse_ip(packet, layer, type);
}

static enum doca_flow_l2_meta l2_meta(const struct layer *layer)
{
    if (layer->vlans == 0)
        return DOCA_FLOW_L2_META_NO_VLAN;
    return layer->vlans == 1 ? DOCA_FLOW_L2_META_SINGLE_VLAN : DOCA_FLOW_L2_META_MULTI_VLAN;
}

static void fill_parser_meta(struct packet *packet)
{
    const struct layer *outer = &packet->layer[0], *inner = &packet->layer[1];
    struct doca_flow_parser_meta *meta = &packet->parser;

    meta->outer_l2_type = l2_meta(outer);
    meta->outer_l3_type = outer->l3;
    meta->outer_l4_type = outer->l4;
    meta->outer_ip_fragmented = outer->fragment;
    meta->outer_l3_ok = outer->l3_ok;
    meta->outer_ip4_checksum_ok = outer->ip4_checksum_ok;
    meta->outer_l4_ok = outer->l4_ok;
    meta->outer_l4_checksum_ok = outer->l4_checksum_ok;
    meta->inner_l2_type = l2_meta(inner);
    meta->inner_l3_type = inner->l3;
    meta->inner_l4_type = inner->l4;
    meta->inner_ip_fragmented = inner->fragment;
    meta->inner_l3_ok = inner->l3_ok;
    meta->inner_ip4_checksum_ok = inner->ip4_checksum_ok;
    meta->inner_l4_ok = inner->l4_ok;
    meta->inner_l4_checksum_ok = inner->l4_checksum_ok;
}

void packet_parse(struct packet *packet)
{
    struct layer *outer = &packet->layer[0], *inner = &packet->layer[1];
    bool payload;

    memset(packet->layer, 0, sizeof(packet->layer));
    packet->tun = DOCA_FLOW_TUN_NONE;
    packet->tun_off = 0;
    payload = parse_eth(packet, outer, 0);
    if (payload && !outer->fragment) {
        if (outer->proto == DOCA_FLOW_PROTO_IPV4 || outer->proto == DOCA_FLOW_PROTO_IPV6) {
            packet->tun = DOCA_FLOW_TUN_IP_IN_IP;
            inner->l3_off = outer->l4_off;
            (void)parse_ip(packet, inner,
                           outer->proto == DOCA_FLOW_PROTO_IPV4 ? DOCA_FLOW_ETHER_TYPE_IPV4
                                                                : DOCA_FLOW_ETHER_TYPE_IPV6);
        } else if (outer->l4 == DOCA_FLOW_L4_META_UDP && outer->end - outer->l4_off >= 16 &&
                   be16_get(packet->data + outer->l4_off + 2) == DOCA_FLOW_VXLAN_DEFAULT_PORT) {
            packet->tun = DOCA_FLOW_TUN_VXLAN;
            packet->tun_off = outer->l4_off + 8;
            (void)parse_eth(packet, inner, packet->tun_off + 8);
        }
    }
    fill_parser_meta(packet);
}
