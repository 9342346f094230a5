/* SPDX-License-Identifier: Apache-2.0 */
#include "nat64.h"

#include <string.h>

#include "bytes.h"

enum { IP4_LEN = 20, IP6_LEN = 40, HOPS = 64 };

static const uint8_t prefix[12] = {0x00, 0x64, 0xff, 0x9b};

/* The L4 checksum covers the addresses; length and protocol of the pseudo header stay the same. */
static void fix_l4(struct packet *packet, uint32_t l4_off, uint32_t before, uint32_t after)
{
    enum doca_flow_l4_meta l4 = packet->layer[0].l4;
    uint8_t *at = packet->data + l4_off + (l4 == DOCA_FLOW_L4_META_TCP ? 16 : 6);
    uint16_t checksum;

    if (l4 != DOCA_FLOW_L4_META_TCP && l4 != DOCA_FLOW_L4_META_UDP)
        return;
    if (l4 == DOCA_FLOW_L4_META_UDP && be16_get(at) == 0)
        return;
    checksum = checksum_update(be16_get(at), before, after);
    if (l4 == DOCA_FLOW_L4_META_UDP && checksum == 0)
        checksum = 0xffff;
    be16_put(at, checksum);
}

static bool to_ip6(struct packet *packet)
{
    struct layer outer = packet->layer[0];
    uint8_t old[IP4_LEN], *ip;
    uint16_t total;

    memcpy(old, packet->data + outer.l3_off, IP4_LEN);
    if (!packet_resize_at(packet, outer.l3_off, IP6_LEN - IP4_LEN))
        return false;
    ip = packet->data + outer.l3_off;
    total = be16_get(old + 2);
    be32_put(ip, 6U << 28 | (uint32_t)old[1] << 20);
    be16_put(ip + 4, (uint16_t)(total >= IP4_LEN ? total - IP4_LEN : 0));
    ip[6] = old[9];
    ip[7] = HOPS;
    memcpy(ip + 8, prefix, 12);
    memcpy(ip + 20, old + 12, 4);
    memcpy(ip + 24, prefix, 12);
    memcpy(ip + 36, old + 16, 4);
    be16_put(packet->data + outer.type_off, DOCA_FLOW_ETHER_TYPE_IPV6);
    fix_l4(packet, outer.l4_off + IP6_LEN - IP4_LEN, sum_add(0, old + 12, 8), sum_add(0, ip + 8, 32));
    return true;
}

static bool to_ip4(struct packet *packet)
{
    struct layer outer = packet->layer[0];
    uint8_t old[IP6_LEN], *ip;

    memcpy(old, packet->data + outer.l3_off, IP6_LEN);
    if (!packet_resize_at(packet, outer.l3_off, IP4_LEN - IP6_LEN))
        return false;
    ip = packet->data + outer.l3_off;
    memset(ip, 0, IP4_LEN);
    ip[0] = 0x45;
    ip[1] = (uint8_t)(be16_get(old) >> 4);
    be16_put(ip + 2, (uint16_t)(be16_get(old + 4) + IP4_LEN));
    ip[8] = HOPS;
    ip[9] = old[6];
    memcpy(ip + 12, old + 20, 4);
    memcpy(ip + 16, old + 36, 4);
    be16_put(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, IP4_LEN)));
    be16_put(packet->data + outer.type_off, DOCA_FLOW_ETHER_TYPE_IPV4);
    fix_l4(packet, outer.l4_off - (IP6_LEN - IP4_LEN), sum_add(0, old + 8, 32), sum_add(0, ip + 12, 8));
    return true;
}

/* What nobody has said that hardware handles; NULL for a plain packet. *fatal: it cannot be translated at all. */
static const char *doubt(const struct packet *packet, bool ip4, bool *fatal)
{
    const struct layer *outer = &packet->layer[0];

    *fatal = true;
    if (outer->l3_len != (ip4 ? IP4_LEN : IP6_LEN))
        return ip4 ? "IPv4 options" : "IPv6 extension headers";
    if (!outer->l3_ok)
        return "an IP length that does not fit the frame";
    *fatal = false;
    if (outer->fragment)
        return "a fragment";
    if (outer->proto == DOCA_FLOW_PROTO_ICMP || outer->proto == DOCA_FLOW_PROTO_ICMP6)
        return "ICMP, whose types differ between the IP versions";
    if (outer->l4 == DOCA_FLOW_L4_META_UDP && be16_get(packet->data + outer->l4_off + 6) == 0)
        return "a UDP checksum of 0";
    return NULL;
}

enum nat64_outcome nat64_apply(struct packet *packet, enum doca_flow_l3_type original, bool strict, const char **why)
{
    bool ip4 = original == DOCA_FLOW_L3_TYPE_IP4, fatal;

    if (packet->layer[0].l3 != (ip4 ? DOCA_FLOW_L3_META_IPV4 : DOCA_FLOW_L3_META_IPV6))
        return NAT64_OTHER;
    *why = doubt(packet, ip4, &fatal);
    if (*why != NULL && (fatal || strict))
        return NAT64_UNPROVEN;
    if (!(ip4 ? to_ip6(packet) : to_ip4(packet)))
        return NAT64_NO_ROOM;
    packet_parse(packet);
    return NAT64_DONE;
}
