/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "require.h"

enum layer_kind { IP4, IP6, UDP, TCP, ICMP };

/* Headers whose lengths and checksums frame_finish() fills in. */
static struct {
    enum layer_kind kind;
    size_t at;
} open_layers[16];
static size_t open_count;

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t sum(uint32_t start, const uint8_t *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        start += i % 2 == 0 ? (uint32_t)at[i] << 8 : (uint32_t)at[i];
    while (start > 0xffff)
        start = (start & 0xffff) + (start >> 16);
    return start;
}

static uint8_t *grow(struct frame *frame, size_t length)
{
    uint8_t *at = frame->bytes + frame->length;

    REQUIRE(frame->length + length <= sizeof(frame->bytes));
    memset(at, 0, length);
    frame->length += length;
    return at;
}

static void open_layer(const struct frame *frame, enum layer_kind kind)
{
    REQUIRE(open_count < sizeof(open_layers) / sizeof(open_layers[0]));
    open_layers[open_count].kind = kind;
    open_layers[open_count++].at = frame->length;
}

void frame_start(struct frame *frame)
{
    frame->length = 0;
    open_count = 0;
}

static void put_mac(uint8_t *at, const char *text)
{
    REQUIRE(sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", at, at + 1, at + 2, at + 3, at + 4, at + 5) == 6);
}

void frame_eth(struct frame *frame, const char *src, const char *dst, uint16_t type)
{
    uint8_t *at = grow(frame, 14);

    put_mac(at, dst);
    put_mac(at + 6, src);
    put16(at + 12, type);
}

void frame_vlan(struct frame *frame, uint16_t tci, uint16_t type)
{
    uint8_t *at = grow(frame, 4);

    put16(at - 2, 0x8100);
    put16(at, tci);
    put16(at + 2, type);
}

void frame_ip(struct frame *frame, struct ip ip)
{
    uint8_t *at;

    if (strchr(ip.src, ':') == NULL) {
        open_layer(frame, IP4);
        at = grow(frame, 20 + ip.options_length);
        at[0] = (uint8_t)(0x45 + ip.options_length / 4);
        at[1] = ip.tos;
        put16(at + 4, ip.id);
        put16(at + 6, ip.fragment);
        at[8] = ip.ttl != 0 ? ip.ttl : 64;
        at[9] = ip.proto;
        REQUIRE(inet_pton(AF_INET, ip.src, at + 12) == 1);
        REQUIRE(inet_pton(AF_INET, ip.dst, at + 16) == 1);
        if (ip.options_length > 0)
            memcpy(at + 20, ip.options, ip.options_length);
    } else {
        open_layer(frame, IP6);
        at = grow(frame, 40);
        at[0] = (uint8_t)(0x60 | ip.tos >> 4);
        at[1] = (uint8_t)((uint32_t)ip.tos << 4 | ip.label >> 16);
        put16(at + 2, (uint16_t)ip.label);
        at[6] = ip.proto;
        at[7] = ip.ttl != 0 ? ip.ttl : 64;
        REQUIRE(inet_pton(AF_INET6, ip.src, at + 8) == 1);
        REQUIRE(inet_pton(AF_INET6, ip.dst, at + 24) == 1);
    }
}

void frame_udp(struct frame *frame, uint16_t src, uint16_t dst)
{
    uint8_t *at;

    open_layer(frame, UDP);
    at = grow(frame, 8);
    put16(at, src);
    put16(at + 2, dst);
}

void frame_tcp(struct frame *frame, uint16_t src, uint16_t dst)
{
    uint8_t *at;

    open_layer(frame, TCP);
    at = grow(frame, 20);
    put16(at, src);
    put16(at + 2, dst);
    at[12] = 0x50;
    at[13] = 0x02;
}

void frame_icmp(struct frame *frame, uint8_t type, uint8_t code, uint16_t ident)
{
    uint8_t *at;

    open_layer(frame, ICMP);
    at = grow(frame, 8);
    at[0] = type;
    at[1] = code;
    put16(at + 4, ident);
}

void frame_vxlan(struct frame *frame, uint32_t vni)
{
    uint8_t *at = grow(frame, 8);

    at[0] = 8;
    at[4] = (uint8_t)(vni >> 16);
    at[5] = (uint8_t)(vni >> 8);
    at[6] = (uint8_t)vni;
}

void frame_text(struct frame *frame, const char *text)
{
    memcpy(grow(frame, strlen(text)), text, strlen(text));
}

/* The sum of the pseudo header that belongs to the L4 header behind it. */
static uint32_t pseudo(const uint8_t *ip, size_t length)
{
    uint32_t start = (uint32_t)length;

    if (ip[0] >> 4 == 4)
        return sum(start + ip[9], ip + 12, 8);
    return sum(start + ip[6], ip + 8, 32);
}

void frame_finish(struct frame *frame)
{
    /* From the inside out, as outer checksums cover inner headers. */
    for (size_t i = open_count; i-- > 0;) {
        uint8_t *at = frame->bytes + open_layers[i].at;
        const uint8_t *ip = i > 0 ? frame->bytes + open_layers[i - 1].at : at;
        size_t length = frame->length - open_layers[i].at;
        uint16_t checksum;

        switch (open_layers[i].kind) {
        case IP4:
            put16(at + 2, (uint16_t)length);
            put16(at + 10, (uint16_t)~sum(0, at, (size_t)(at[0] & 15) * 4));
            break;
        case IP6:
            put16(at + 4, (uint16_t)(length - 40));
            break;
        case UDP:
            put16(at + 4, (uint16_t)length);
            checksum = (uint16_t)~sum(pseudo(ip, length), at, length);
            put16(at + 6, checksum != 0 ? checksum : 0xffff);
            break;
        case TCP:
            put16(at + 16, (uint16_t)~sum(pseudo(ip, length), at, length));
            break;
        case ICMP:
        default:
            put16(at + 2, (uint16_t)~sum(ip[0] >> 4 == 6 ? pseudo(ip, length) : 0, at, length));
            break;
        }
    }
}

void frame_packet(struct frame *frame, const char *src, const char *dst, uint8_t proto, uint16_t sport,
                  uint16_t dport)
{
    frame_start(frame);
    frame_eth(frame, "02:00:00:00:00:01", "02:00:00:00:00:02", strchr(src, ':') == NULL ? 0x0800 : 0x86dd);
    frame_ip(frame, (struct ip){.src = src, .dst = dst, .proto = proto});
    if (proto == 6)
        frame_tcp(frame, sport, dport);
    else
        frame_udp(frame, sport, dport);
    frame_text(frame, "payload");
    frame_finish(frame);
}

static int ip_ok(const uint8_t *ip, size_t room)
{
    size_t header = ip[0] >> 4 == 4 ? (size_t)(ip[0] & 15) * 4 : 40;
    size_t total = ip[0] >> 4 == 4 ? get16(ip + 2) : 40U + get16(ip + 4);
    uint8_t proto = ip[0] >> 4 == 4 ? ip[9] : ip[6];
    const uint8_t *l4 = ip + header;
    size_t length = total - header;

    if (total > room || total < header)
        return 0;
    if (ip[0] >> 4 == 4 && sum(0, ip, header) != 0xffff)
        return 0;
    if (proto == 4 || proto == 41)
        return ip_ok(l4, length);
    if (proto == 6)
        return sum(pseudo(ip, length), l4, length) == 0xffff;
    if (proto == 17)
        return (get16(l4 + 6) == 0 && ip[0] >> 4 == 4) || sum(pseudo(ip, length), l4, length) == 0xffff;
    if (proto == 1 || proto == 58)
        return sum(proto == 58 ? pseudo(ip, length) : 0, l4, length) == 0xffff;
    return 1;
}

int frame_checksums_ok(const uint8_t *bytes, size_t length)
{
    size_t at = 12;

    while (get16(bytes + at) == 0x8100)
        at += 4;
    return ip_ok(bytes + at + 2, length - at - 2);
}
