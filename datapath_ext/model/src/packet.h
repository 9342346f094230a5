/* SPDX-License-Identifier: Apache-2.0 */
/* A packet on its way through pipes, and what the parser knows of it. */
#ifndef MODEL_PACKET_H_
#define MODEL_PACKET_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doca_flow_structs.h>

enum {
    FRAME_MAX = 65535,
    HEADROOM = 256, /* room for what encapsulation and translation put in front */
    FIELD_MAX = 16, /* bytes of the widest field, an IPv6 address */
};

/* One stack of headers: the outermost, or the one inside of a tunnel. Offsets count from the start of the frame. */
struct layer {
    bool eth;
    uint32_t eth_off;
    uint32_t type_off; /* the Ethernet type behind all VLAN tags */
    unsigned vlans;
    uint32_t vlan_off[DOCA_FLOW_VLAN_MAX];
    enum doca_flow_l3_meta l3;
    uint32_t l3_off;
    uint32_t l3_len;  /* header with options or extension headers */
    uint32_t end;     /* end of the IP packet, or of the frame where that is shorter */
    uint8_t proto;    /* of the payload */
    bool fragment;
    bool l3_ok;
    bool ip4_checksum_ok;
    enum doca_flow_l4_meta l4;
    uint32_t l4_off;
    bool l4_ok;
    bool l4_checksum_ok;
};

struct packet {
    uint8_t *room; /* the allocation */
    uint8_t *data; /* the frame, somewhere in it */
    size_t length;
    struct doca_flow_meta meta;
    struct doca_flow_parser_meta parser;
    struct layer layer[2]; /* outer, inner */
    enum doca_flow_tun_type tun;
    uint32_t tun_off; /* of the tunnel header behind UDP */
    uint16_t in_port;
};

struct packet *packet_create(const uint8_t *frame, size_t length);
struct packet *packet_copy(const struct packet *packet);
void packet_destroy(struct packet *packet);

/* Reads the headers anew; meta data that is not the parser's stays. Takes any bytes. */
void packet_parse(struct packet *packet);

/* Makes `add` bytes of room at `at` (add > 0) or removes -add bytes there; false if there is no room. */
bool packet_resize_at(struct packet *packet, size_t at, long add);

#endif
