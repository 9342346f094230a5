/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel.h"

#include <string.h>

#include "bytes.h"
#include "core.h"
#include "fields.h"

enum { ETH_LEN = 14, IP4_LEN = 20, IP6_LEN = 40, UDP_LEN = 8, VXLAN_LEN = 8, VXLAN_FLAGS = 0x08 };

/* Replaces what is all ones in `merged` by the entry's; tells whether anything is. */
static bool merge_format(struct doca_flow_header_format *merged, const struct doca_flow_header_format *entry)
{
    bool changeable = false;
    size_t count;
    const struct field *fields = section_fields(SECTION_OUTER, &count);

    for (size_t i = 0; i < count; i++) {
        uint8_t *value = (uint8_t *)merged + fields[i].offset;

        if (!field_selected(&fields[i], merged->l3_type, merged->l4_type_ext) || !field_all_ones(&fields[i], value))
            continue;
        changeable = true;
        if (entry != NULL)
            memcpy(value, (const uint8_t *)entry + fields[i].offset, fields[i].size);
    }
    return changeable;
}

static bool merge_encap(struct doca_flow_resource_encap_cfg *merged, const struct doca_flow_resource_encap_cfg *entry)
{
    bool changeable = merge_format(&merged->encap.outer, entry != NULL ? &entry->encap.outer : NULL);
    struct doca_flow_tun *tun = &merged->encap.tun;

    if (tun->type == DOCA_FLOW_TUN_VXLAN && tun->vxlan_tun_id == UINT32_MAX) {
        changeable = true;
        if (entry != NULL)
            tun->vxlan_tun_id = entry->encap.tun.vxlan_tun_id;
    }
    if (tun->type == DOCA_FLOW_TUN_VXLAN && tun->vxlan_tun_rsvd1 == UINT8_MAX) {
        changeable = true;
        if (entry != NULL)
            tun->vxlan_tun_rsvd1 = entry->encap.tun.vxlan_tun_rsvd1;
    }
    return changeable;
}

bool encap_is_changeable(const struct doca_flow_resource_encap_cfg *shape)
{
    struct doca_flow_resource_encap_cfg merged = *shape;

    return merge_encap(&merged, NULL);
}

static size_t put_eth(uint8_t *at, const struct doca_flow_header_eth *eth, uint16_t l2_valid_headers,
                      const struct doca_flow_header_eth_vlan *vlan, uint16_t type)
{
    size_t length = 12;

    memcpy(at, eth->dst_mac, 6);
    memcpy(at + 6, eth->src_mac, 6);
    for (unsigned i = 0; i < DOCA_FLOW_VLAN_MAX; i++)
        if (l2_valid_headers & (1U << i)) {
            be16_put(at + length, DOCA_FLOW_ETHER_TYPE_VLAN);
            be16_put(at + length + 2, DOCA_BETOH16(vlan[i].tci));
            length += 4;
        }
    be16_put(at + length, type);
    return length + 2;
}

static size_t put_ip4(uint8_t *at, const struct doca_flow_header_ip4 *ip, uint8_t proto)
{
    memset(at, 0, IP4_LEN);
    at[0] = 0x45;
    at[1] = ip->dscp_ecn;
    memcpy(at + 4, &ip->identification, 2);
    memcpy(at + 6, &ip->flags_fragment_offset, 2);
    at[8] = ip->ttl;
    at[9] = proto;
    memcpy(at + 12, &ip->src_ip, 4);
    memcpy(at + 16, &ip->dst_ip, 4);
    return IP4_LEN;
}

static size_t put_ip6(uint8_t *at, const struct doca_flow_header_ip6 *ip, uint8_t proto)
{
    memset(at, 0, IP6_LEN);
    be32_put(at, 6U << 28 | (uint32_t)ip->traffic_class << 20 | (DOCA_BETOH32(ip->flow_label) & 0xfffff));
    at[6] = proto;
    at[7] = ip->hop_limit;
    memcpy(at + 8, ip->src_ip, 16);
    memcpy(at + 24, ip->dst_ip, 16);
    return IP6_LEN;
}

static size_t put_udp_vxlan(uint8_t *at, const struct doca_flow_encap_action *encap)
{
    uint16_t port = DOCA_BETOH16(encap->outer.udp.l4_port.dst_port);

    memset(at, 0, UDP_LEN + VXLAN_LEN);
    memcpy(at, &encap->outer.udp.l4_port.src_port, 2);
    be16_put(at + 2, port != 0 ? port : DOCA_FLOW_VXLAN_DEFAULT_PORT);
    at[UDP_LEN] = VXLAN_FLAGS;
    be32_put(at + UDP_LEN + 4, DOCA_BETOH32(encap->tun.vxlan_tun_id) << 8);
    at[UDP_LEN + 7] = encap->tun.vxlan_tun_rsvd1;
    return UDP_LEN + VXLAN_LEN;
}

static doca_error_t check_encap(const struct doca_flow_resource_encap_cfg *shape)
{
    const struct doca_flow_header_format *outer = &shape->encap.outer;
    const struct doca_flow_tun *tun = &shape->encap.tun;

    if (outer->l3_type != DOCA_FLOW_L3_TYPE_IP4 && outer->l3_type != DOCA_FLOW_L3_TYPE_IP6)
        return refuse(DOCA_ERROR_INVALID_VALUE, "encap with outer.l3_type %u; IP4 or IP6", (unsigned)outer->l3_type);
    if (tun->type == DOCA_FLOW_TUN_IP_IN_IP) {
        uint8_t proto = outer->l3_type == DOCA_FLOW_L3_TYPE_IP4 ? outer->ip4.next_proto : outer->ip6.next_proto;

        if (shape->is_l2)
            return refuse(DOCA_ERROR_INVALID_VALUE, "IP-in-IP encap with is_l2; the inner packet has no Ethernet");
        if (proto != DOCA_FLOW_PROTO_IPV4 && proto != DOCA_FLOW_PROTO_IPV6)
            return refuse(DOCA_ERROR_INVALID_VALUE, "IP-in-IP encap with next_proto %u; 4 or 41, the inner version",
                          proto);
        return DOCA_SUCCESS;
    }
    if (tun->type == DOCA_FLOW_TUN_VXLAN && tun->vxlan_type == DOCA_FLOW_TUN_EXT_VXLAN_STANDARD && shape->is_l2)
        return DOCA_SUCCESS;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "encap with tunnel type %d and is_l2 %d; the model knows IP-in-IP and "
                  "plain VXLAN with is_l2", (int)tun->type, shape->is_l2);
}

doca_error_t encap_build(const struct doca_flow_resource_encap_cfg *shape,
                         const struct doca_flow_resource_encap_cfg *entry, struct encap_header *header)
{
    struct doca_flow_resource_encap_cfg merged = *shape;
    const struct doca_flow_header_format *outer = &merged.encap.outer;
    doca_error_t result = check_encap(shape);
    bool ip4 = outer->l3_type == DOCA_FLOW_L3_TYPE_IP4, vxlan = merged.encap.tun.type == DOCA_FLOW_TUN_VXLAN;
    uint8_t proto = DOCA_FLOW_PROTO_UDP;

    memset(header, 0, sizeof(*header));
    if (result != DOCA_SUCCESS)
        return result;
    (void)merge_encap(&merged, entry);
    if (!vxlan)
        proto = ip4 ? outer->ip4.next_proto : outer->ip6.next_proto;
    header->is_l2 = merged.is_l2;
    header->l3 = outer->l3_type;
    header->l3_off = put_eth(header->bytes, &outer->eth, outer->l2_valid_headers, outer->eth_vlan,
                             ip4 ? DOCA_FLOW_ETHER_TYPE_IPV4 : DOCA_FLOW_ETHER_TYPE_IPV6);
    header->length = header->l3_off;
    header->length += ip4 ? put_ip4(header->bytes + header->length, &outer->ip4, proto)
                          : put_ip6(header->bytes + header->length, &outer->ip6, proto);
    if (vxlan) {
        header->l4_off = header->length;
        header->length += put_udp_vxlan(header->bytes + header->length, &merged.encap);
    }
    return DOCA_SUCCESS;
}

static bool merge_decap(struct doca_flow_resource_decap_cfg *merged, const struct doca_flow_resource_decap_cfg *entry)
{
    struct doca_flow_header_format format = {.eth = merged->eth};
    struct doca_flow_header_format given = {.eth = entry != NULL ? entry->eth : merged->eth};
    bool changeable;

    memcpy(format.eth_vlan, merged->eth_vlan, sizeof(format.eth_vlan));
    memcpy(given.eth_vlan, entry != NULL ? entry->eth_vlan : merged->eth_vlan, sizeof(given.eth_vlan));
    changeable = merge_format(&format, entry != NULL ? &given : NULL);
    merged->eth = format.eth;
    memcpy(merged->eth_vlan, format.eth_vlan, sizeof(format.eth_vlan));
    return changeable && !merged->is_l2;
}

bool decap_is_changeable(const struct doca_flow_resource_decap_cfg *shape)
{
    struct doca_flow_resource_decap_cfg merged = *shape;

    return merge_decap(&merged, NULL);
}

doca_error_t decap_build(const struct doca_flow_resource_decap_cfg *shape,
                         const struct doca_flow_resource_decap_cfg *entry, struct decap_header *header)
{
    struct doca_flow_resource_decap_cfg merged = *shape;

    memset(header, 0, sizeof(*header));
    header->is_l2 = shape->is_l2;
    if (shape->is_l2)
        return DOCA_SUCCESS;
    (void)merge_decap(&merged, entry);
    header->length = put_eth(header->bytes, &merged.eth, merged.l2_valid_headers, merged.eth_vlan,
                             DOCA_BETOH16(merged.eth.type));
    return DOCA_SUCCESS;
}

bool encap_apply(const struct encap_header *header, struct packet *packet)
{
    size_t strip = header->is_l2 ? 0 : packet->layer[0].l3_off;
    uint8_t *ip, *udp;
    size_t payload;

    if (!packet->layer[0].eth || (!header->is_l2 && packet->layer[0].l3 == DOCA_FLOW_L3_META_NONE))
        return false;
    if (!packet_resize_at(packet, 0, (long)header->length - (long)strip))
        return false;
    memcpy(packet->data, header->bytes, header->length);
    ip = packet->data + header->l3_off;
    payload = packet->length - header->l3_off;
    if (header->l3 == DOCA_FLOW_L3_TYPE_IP4) {
        be16_put(ip + 2, (uint16_t)payload);
        be16_put(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, IP4_LEN)));
    } else {
        be16_put(ip + 4, (uint16_t)(payload - IP6_LEN));
    }
    if (header->l4_off != 0) {
        udp = packet->data + header->l4_off;
        be16_put(udp + 4, (uint16_t)(packet->length - header->l4_off));
    }
    packet_parse(packet);
    return true;
}

bool decap_apply(const struct decap_header *header, struct packet *packet)
{
    const struct layer *inner = &packet->layer[1];

    if (packet->tun == DOCA_FLOW_TUN_NONE)
        return false;
    if (header->is_l2) {
        if (!inner->eth || !packet_resize_at(packet, 0, -(long)inner->eth_off))
            return false;
    } else {
        if (inner->l3 == DOCA_FLOW_L3_META_NONE ||
            !packet_resize_at(packet, 0, (long)header->length - (long)inner->l3_off))
            return false;
        memcpy(packet->data, header->bytes, header->length);
    }
    packet_parse(packet);
    return true;
}

bool vlan_push(struct packet *packet, uint16_t type, uint16_t tci)
{
    if (!packet->layer[0].eth || !packet_resize_at(packet, 12, 4))
        return false;
    be16_put(packet->data + 12, type);
    be16_put(packet->data + 14, tci);
    packet_parse(packet);
    return true;
}

bool vlan_pop(struct packet *packet)
{
    if (packet->layer[0].vlans == 0 || !packet_resize_at(packet, 12, -4))
        return false;
    packet_parse(packet);
    return true;
}
