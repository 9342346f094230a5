/* SPDX-License-Identifier: Apache-2.0 */
/* Frames for tests, header by header, with correct lengths and checksums. */
#ifndef TESTS_FRAME_H_
#define TESTS_FRAME_H_

#include <stddef.h>
#include <stdint.h>

struct frame {
    uint8_t bytes[70000];
    size_t length;
};

struct ip {
    const char *src, *dst; /* text of either version */
    uint8_t tos, ttl, proto;
    uint16_t id, fragment; /* flags and offset */
    uint32_t label;
    const uint8_t *options; /* IPv4; a multiple of 4 bytes */
    size_t options_length;
};

void frame_start(struct frame *frame);
void frame_eth(struct frame *frame, const char *src, const char *dst, uint16_t type);
void frame_vlan(struct frame *frame, uint16_t tci, uint16_t type);
/* Lengths cover what is added later: call frame_finish() at the end. ttl 0 means 64. */
void frame_ip(struct frame *frame, struct ip ip);
void frame_udp(struct frame *frame, uint16_t src, uint16_t dst);
void frame_tcp(struct frame *frame, uint16_t src, uint16_t dst);
void frame_icmp(struct frame *frame, uint8_t type, uint8_t code, uint16_t ident);
void frame_vxlan(struct frame *frame, uint32_t vni);
void frame_text(struct frame *frame, const char *text);
void frame_finish(struct frame *frame);

/* The usual: Ethernet, IP of either version, TCP or UDP (6, 17), a payload. */
void frame_packet(struct frame *frame, const char *src, const char *dst, uint8_t proto, uint16_t sport,
                  uint16_t dport);

/* Whether all checksums of the frame are right, tunnels included; 0 in UDP over IPv4 counts as right. */
int frame_checksums_ok(const uint8_t *bytes, size_t length);

#endif
