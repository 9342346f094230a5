/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <string.h>

#include "bytes.h"

#define MEMBER(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)
#define FORMAT(member) MEMBER(doca_flow_header_format, member)
#define PARSER(member) MEMBER(doca_flow_parser_meta, member)
#define META(member) MEMBER(doca_flow_meta, member)
#define IP4 DOCA_FLOW_L3_TYPE_IP4
#define IP6 DOCA_FLOW_L3_TYPE_IP6
#define TCP DOCA_FLOW_L4_TYPE_EXT_TCP
#define UDP DOCA_FLOW_L4_TYPE_EXT_UDP
#define ICMP DOCA_FLOW_L4_TYPE_EXT_ICMP
#define TRANSPORT DOCA_FLOW_L4_TYPE_EXT_TRANSPORT

static const struct field header_fields[] = {
    {"eth.dst_mac", FORMAT(eth.dst_mac), HEADER_ETH, 0, 48, 0, 0},
    {"eth.src_mac", FORMAT(eth.src_mac), HEADER_ETH, 48, 48, 0, 0},
    {"eth.type", FORMAT(eth.type), HEADER_ETH_TYPE, 0, 16, 0, 0},
    {"eth_vlan0.tci", FORMAT(eth_vlan[0].tci), HEADER_VLAN0, 0, 16, 0, 0},
    {"eth_vlan1.tci", FORMAT(eth_vlan[1].tci), HEADER_VLAN1, 0, 16, 0, 0},
    {"ipv4.src_ip", FORMAT(ip4.src_ip), HEADER_IP4, 96, 32, IP4, 0},
    {"ipv4.dst_ip", FORMAT(ip4.dst_ip), HEADER_IP4, 128, 32, IP4, 0},
    {"ipv4.version_ihl", FORMAT(ip4.version_ihl), HEADER_IP4, 0, 8, IP4, 0},
    {"ipv4.dscp_ecn", FORMAT(ip4.dscp_ecn), HEADER_IP4, 8, 8, IP4, 0},
    {"ipv4.total_len", FORMAT(ip4.total_len), HEADER_IP4, 16, 16, IP4, 0},
    {"ipv4.identification", FORMAT(ip4.identification), HEADER_IP4, 32, 16, IP4, 0},
    {"ipv4.flags_fragment_offset", FORMAT(ip4.flags_fragment_offset), HEADER_IP4, 48, 16, IP4, 0},
    {"ipv4.ttl", FORMAT(ip4.ttl), HEADER_IP4, 64, 8, IP4, 0},
    {"ipv4.next_proto", FORMAT(ip4.next_proto), HEADER_IP4, 72, 8, IP4, 0},
    {"ipv6.src_ip", FORMAT(ip6.src_ip), HEADER_IP6, 64, 128, IP6, 0},
    {"ipv6.dst_ip", FORMAT(ip6.dst_ip), HEADER_IP6, 192, 128, IP6, 0},
    {"ipv6.traffic_class", FORMAT(ip6.traffic_class), HEADER_IP6, 4, 8, IP6, 0},
    {"ipv6.flow_label", FORMAT(ip6.flow_label), HEADER_IP6, 12, 20, IP6, 0},
    {"ipv6.payload_len", FORMAT(ip6.payload_len), HEADER_IP6, 32, 16, IP6, 0},
    {"ipv6.next_proto", FORMAT(ip6.next_proto), HEADER_IP6, 48, 8, IP6, 0},
    {"ipv6.hop_limit", FORMAT(ip6.hop_limit), HEADER_IP6, 56, 8, IP6, 0},
    {"udp.src_port", FORMAT(udp.l4_port.src_port), HEADER_PORTS, 0, 16, 0, UDP},
    {"udp.dst_port", FORMAT(udp.l4_port.dst_port), HEADER_PORTS, 16, 16, 0, UDP},
    {"tcp.src_port", FORMAT(tcp.l4_port.src_port), HEADER_PORTS, 0, 16, 0, TCP},
    {"tcp.dst_port", FORMAT(tcp.l4_port.dst_port), HEADER_PORTS, 16, 16, 0, TCP},
    {"tcp.seq_num", FORMAT(tcp.seq_num), HEADER_TCP, 32, 32, 0, TCP},
    {"tcp.ack_num", FORMAT(tcp.ack_num), HEADER_TCP, 64, 32, 0, TCP},
    {"tcp.data_offset", FORMAT(tcp.data_offset), HEADER_TCP, 96, 4, 0, TCP},
    {"tcp.flags", FORMAT(tcp.flags), HEADER_TCP, 104, 8, 0, TCP},
    {"transport.src_port", FORMAT(transport.src_port), HEADER_PORTS, 0, 16, 0, TRANSPORT},
    {"transport.dst_port", FORMAT(transport.dst_port), HEADER_PORTS, 16, 16, 0, TRANSPORT},
    {"icmp4.type", FORMAT(icmp.type), HEADER_ICMP, 0, 8, 0, ICMP},
    {"icmp4.code", FORMAT(icmp.code), HEADER_ICMP, 8, 8, 0, ICMP},
    {"icmp4.ident", FORMAT(icmp.ident), HEADER_ICMP, 32, 16, 0, ICMP},
};

static const struct field meta_fields[] = {
    {NULL, META(pkt_meta), HEADER_META, 0, 32, 0, 0}, {NULL, META(u32[0]), HEADER_META, 0, 32, 0, 0},
    {NULL, META(u32[1]), HEADER_META, 0, 32, 0, 0},   {NULL, META(u32[2]), HEADER_META, 0, 32, 0, 0},
    {NULL, META(u32[3]), HEADER_META, 0, 32, 0, 0},   {NULL, META(u32[4]), HEADER_META, 0, 32, 0, 0},
    {NULL, META(u32[5]), HEADER_META, 0, 32, 0, 0},   {NULL, META(u32[6]), HEADER_META, 0, 32, 0, 0},
    {NULL, META(u32[7]), HEADER_META, 0, 32, 0, 0},   {NULL, META(u32[8]), HEADER_META, 0, 32, 0, 0},
    {NULL, META(u32[9]), HEADER_META, 0, 32, 0, 0},
};

/* Opaque bytes in host order, but for the random number. */
static const struct field parser_fields[] = {
    {NULL, PARSER(port_id), HEADER_PARSER, 0, 16, 0, 0},
    {"random.value", PARSER(random), HEADER_PARSER, 0, 16, 0, 0},
    {NULL, PARSER(meter_color), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(outer_l2_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(outer_l3_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(outer_l4_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(inner_l2_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(inner_l3_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(inner_l4_type), HEADER_PARSER, 0, 32, 0, 0},
    {NULL, PARSER(outer_ip_fragmented), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(inner_ip_fragmented), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(outer_l3_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(outer_ip4_checksum_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(outer_l4_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(outer_l4_checksum_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(inner_l3_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(inner_ip4_checksum_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(inner_l4_ok), HEADER_PARSER, 0, 8, 0, 0},
    {NULL, PARSER(inner_l4_checksum_ok), HEADER_PARSER, 0, 8, 0, 0},
};

/* The VNI is the lower three bytes of its word. */
static const struct field tun_fields[] = {
    {NULL, offsetof(struct doca_flow_tun, vxlan_tun_id) + 1, 3, HEADER_VXLAN, 32, 24, 0, 0},
    {NULL, offsetof(struct doca_flow_tun, vxlan_tun_rsvd1), 1, HEADER_VXLAN, 56, 8, 0, 0},
};

static const char *const section_names[SECTIONS] = {"meta", "parser_meta", "outer", "tunnel", "inner"};

const struct field *section_fields(enum section section, size_t *count)
{
    switch (section) {
    case SECTION_META:
        *count = sizeof(meta_fields) / sizeof(meta_fields[0]);
        return meta_fields;
    case SECTION_PARSER:
        *count = sizeof(parser_fields) / sizeof(parser_fields[0]);
        return parser_fields;
    case SECTION_TUN:
        *count = sizeof(tun_fields) / sizeof(tun_fields[0]);
        return tun_fields;
    case SECTION_OUTER:
    case SECTION_INNER:
    default:
        *count = sizeof(header_fields) / sizeof(header_fields[0]);
        return header_fields;
    }
}

size_t section_in_match(enum section section)
{
    static const size_t at[SECTIONS] = {
        offsetof(struct doca_flow_match, meta), offsetof(struct doca_flow_match, parser_meta),
        offsetof(struct doca_flow_match, outer), offsetof(struct doca_flow_match, tun),
        offsetof(struct doca_flow_match, inner),
    };

    return at[section];
}

size_t section_in_actions(enum section section)
{
    static const size_t at[SECTIONS] = {
        offsetof(struct doca_flow_actions, meta), offsetof(struct doca_flow_actions, parser_meta),
        offsetof(struct doca_flow_actions, outer), offsetof(struct doca_flow_actions, tun), SIZE_MAX,
    };

    return at[section];
}

bool field_selected(const struct field *field, enum doca_flow_l3_type l3, enum doca_flow_l4_type_ext l4)
{
    if (field->l3 != DOCA_FLOW_L3_TYPE_NONE && field->l3 != l3)
        return false;
    if (field->l4 == ICMP && l4 == DOCA_FLOW_L4_TYPE_EXT_ICMP6)
        return true;
    return field->l4 == DOCA_FLOW_L4_TYPE_EXT_NONE || field->l4 == l4;
}

bool field_all_ones(const struct field *field, const uint8_t *value)
{
    uint8_t ones[FIELD_MAX] = {0}, number[FIELD_MAX] = {0};

    memset(ones, 0xff, field->size);
    number_copy(number, field->size, 0, ones, field->size, 0, field->width);
    for (unsigned i = 0; i < field->size; i++)
        if ((value[i] & number[i]) != number[i])
            return false;
    return true;
}

/* The start of the field's header in the frame, or NULL. */
static uint8_t *header_start(const struct packet *packet, struct place place)
{
    const struct layer *layer = &packet->layer[place.section == SECTION_INNER];
    bool present = false;
    uint32_t at = 0;

    switch (place.field->header) {
    case HEADER_ETH:
        present = layer->eth;
        at = layer->eth_off;
        break;
    case HEADER_ETH_TYPE:
        present = layer->eth;
        at = layer->type_off;
        break;
    case HEADER_VLAN0:
    case HEADER_VLAN1:
        present = layer->vlans > (unsigned)(place.field->header - HEADER_VLAN0);
        at = present ? layer->vlan_off[place.field->header - HEADER_VLAN0] : 0;
        break;
    case HEADER_IP4:
        present = layer->l3 == DOCA_FLOW_L3_META_IPV4;
        at = layer->l3_off;
        break;
    case HEADER_IP6:
        present = layer->l3 == DOCA_FLOW_L3_META_IPV6;
        at = layer->l3_off;
        break;
    case HEADER_PORTS:
        present = layer->l4 == DOCA_FLOW_L4_META_TCP || layer->l4 == DOCA_FLOW_L4_META_UDP;
        at = layer->l4_off;
        break;
    case HEADER_TCP:
        present = layer->l4 == DOCA_FLOW_L4_META_TCP;
        at = layer->l4_off;
        break;
    case HEADER_ICMP:
        present = layer->l4 == DOCA_FLOW_L4_META_ICMP;
        at = layer->l4_off;
        break;
    case HEADER_VXLAN:
        present = packet->tun == DOCA_FLOW_TUN_VXLAN;
        at = packet->tun_off;
        break;
    case HEADER_META:
    case HEADER_PARSER:
    default:
        break;
    }
    return present ? packet->data + at : NULL;
}

const uint8_t *field_get(const struct packet *packet, struct place place, uint8_t room[FIELD_MAX])
{
    const struct field *field = place.field;
    const uint8_t *start;

    if (place.section == SECTION_META)
        return (const uint8_t *)&packet->meta + field->offset;
    if (place.section == SECTION_PARSER)
        return (const uint8_t *)&packet->parser + field->offset;
    start = header_start(packet, place);
    if (start == NULL)
        return NULL;
    if (field->bit % 8 == 0 && field->width == field->size * 8)
        return start + field->bit / 8;
    bits_read(start, field->bit, field->width, room, field->size);
    return room;
}

bool field_read(const struct packet *packet, struct place place, uint8_t number[FIELD_MAX])
{
    uint8_t room[FIELD_MAX];
    const uint8_t *found = field_get(packet, place, room);

    if (found == NULL)
        return false;
    memcpy(number, found, place.field->size);
    return true;
}

void field_write(struct packet *packet, struct place place, const uint8_t number[FIELD_MAX])
{
    const struct field *field = place.field;
    uint8_t *start;

    if (place.section == SECTION_META) {
        memcpy((uint8_t *)&packet->meta + field->offset, number, field->size);
        return;
    }
    start = header_start(packet, place);
    if (start != NULL)
        bits_write(start, field->bit, field->width, number, field->size);
}

static bool find_meta(unsigned *bit, unsigned width, struct place *place)
{
    unsigned word = *bit / 32;

    if (word >= sizeof(meta_fields) / sizeof(meta_fields[0]) || *bit % 32 + width > 32)
        return false;
    *bit %= 32;
    place->section = SECTION_META;
    place->field = &meta_fields[word];
    return true;
}

bool place_find(const char *string, unsigned *bit, unsigned width, struct place *place)
{
    if (strcmp(string, "meta.data") == 0)
        return find_meta(bit, width, place);
    for (enum section section = SECTION_PARSER; section <= SECTION_INNER; section++) {
        size_t length = strlen(section_names[section]), count;
        const struct field *fields = section_fields(section, &count);

        if (strncmp(string, section_names[section], length) != 0 || string[length] != '.')
            continue;
        for (size_t i = 0; i < count; i++)
            if (fields[i].name != NULL && strcmp(fields[i].name, string + length + 1) == 0) {
                place->section = section;
                place->field = &fields[i];
                return *bit + width <= fields[i].width;
            }
    }
    return false;
}

bool place_is_proven(const char *string)
{
    static const char *const seen[] = {
        "outer.eth.src_mac",      "outer.eth.dst_mac",     "outer.eth.type",         "outer.eth_vlan0.tci",
        "outer.ipv4.src_ip",      "outer.ipv4.dst_ip",     "outer.ipv4.ttl",         "outer.ipv4.dscp_ecn",
        "outer.ipv4.total_len",   "outer.ipv4.version_ihl", "outer.ipv4.next_proto", "outer.ipv6.src_ip",
        "outer.ipv6.dst_ip",      "outer.ipv6.flow_label", "outer.ipv6.payload_len", "outer.ipv6.traffic_class",
        "outer.udp.src_port",     "outer.udp.dst_port",    "outer.tcp.seq_num",      "outer.tcp.ack_num",
        "outer.tcp.data_offset",  "inner.ipv6.flow_label", "meta.data",              "parser_meta.random.value",
    };

    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
        if (strcmp(seen[i], string) == 0)
            return true;
    return false;
}

const char *place_name(struct place place)
{
    if (place.section == SECTION_META)
        return place.field->offset == 0 ? "meta.pkt_meta" : "meta.u32";
    return place.field->name != NULL ? place.field->name : section_names[place.section];
}
