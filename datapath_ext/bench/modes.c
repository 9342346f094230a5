/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include <stdio.h>
#include <string.h>

#include "require.h"
#include "frame.h"

enum { SLOTS = 64, BACKENDS = 4 };

const struct mode modes[] = {
    {"l2-slots", "slots", "l2", 4, 4, QUERIES},     {"l2-client", "client", "l2", 4, 4, QUERIES},
    {"l2-spray", "spray", "l2", 4, 4, QUERIES},     {"ipip-4in4", "slots", "ipip", 4, 4, QUERIES},
    {"ipip-6in4", "slots", "ipip", 6, 4, QUERIES},  {"ipip-4in6", "slots", "ipip", 4, 6, QUERIES},
    {"ipip-6in6", "slots", "ipip", 6, 6, QUERIES},  {"siit-query", "slots", "siit", 4, 6, QUERIES},
    {"siit-answer", "slots", "siit", 4, 6, ANSWERS}, {"siit-both", "slots", "siit", 4, 6, BOTH},
};
const size_t mode_count = sizeof(modes) / sizeof(modes[0]);

static void backend_address(unsigned family, unsigned vip, unsigned backend, char *text, size_t size)
{
    if (family == 4)
        (void)snprintf(text, size, "192.0.%u.%u", 2 + vip / 60, 1 + vip % 60 * BACKENDS + backend);
    else
        (void)snprintf(text, size, "2001:db8:b::%x:%x", vip + 1, backend + 1);
}

static void vip_address(unsigned family, unsigned vip, char *text, size_t size)
{
    if (family == 4)
        (void)snprintf(text, size, "198.51.%u.%u", 100 + vip / 250, 1 + vip % 250);
    else
        (void)snprintf(text, size, "2001:db8:1::%x", vip + 1);
}

static json_t *backend_json(const struct mode *mode, unsigned vip, unsigned backend)
{
    char name[32], mac[32], address[64];

    (void)snprintf(name, sizeof(name), "b%u-%u", vip, backend);
    (void)snprintf(mac, sizeof(mac), "02:00:00:%02x:%02x:%02x", vip >> 8, vip & 0xff, 0x10 + backend);
    backend_address(mode->backend_family, vip, backend, address, sizeof(address));
    return json_pack("{s:s, s:s, s:s}", "name", name, "mac", mac, "address", address);
}

static json_t *vip_json(const struct mode *mode, unsigned vip)
{
    char name[32], address[64];
    json_t *slots = json_array(), *json;

    (void)snprintf(name, sizeof(name), "dns%u", vip);
    vip_address(mode->family, vip, address, sizeof(address));
    for (unsigned i = 0; i < SLOTS; i++)
        (void)json_array_append_new(slots, json_sprintf("b%u-%u", vip, i % BACKENDS));
    json = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:o, s:s}", "name", name, "family",
                     mode->family == 4 ? "ipv4" : "ipv6", "address", address, "protocol", "udp", "port", 53, "select",
                     mode->select, "slots", slots, "forward", mode->forward);
    if (strcmp(mode->select, "client") == 0)
        (void)json_object_set_new(json, "hash_fields", json_pack("[s,s]", "src_ip", "src_port"));
    return json;
}

json_t *mode_program(const struct mode *mode, unsigned vips, const char *const devices[2])
{
    json_t *backends = json_array(), *vip_list = json_array(), *json;

    for (unsigned vip = 0; vip < vips; vip++) {
        for (unsigned backend = 0; backend < BACKENDS; backend++)
            (void)json_array_append_new(backends, backend_json(mode, vip, backend));
        (void)json_array_append_new(vip_list, vip_json(mode, vip));
    }
    json = json_pack("{s:i, s:{s:s, s:s}, s:{s:i, s:i, s:i, s:i}, s:o, s:o}", "version", 1, "ports", "in",
                     devices[DEVICE_IN], "out", devices[DEVICE_OUT], "budgets", "vips", (int)vips, "slots",
                     (int)vips * SLOTS, "backends", (int)vips * BACKENDS * 2, "counters", (int)vips * SLOTS + 16,
                     "backends", backends, "vips", vip_list);
    if (strcmp(mode->forward, "ipip") == 0)
        (void)json_object_set_new(json, "tunnel", json_pack("{s:s, s:s, s:s}", "mac", "02:00:00:00:00:01", "ipv4",
                                                            "203.0.113.1", "ipv6", "2001:db8:ffff::1"));
    return json;
}

static void make_frame(const struct mode *mode, bool answers, unsigned vip, unsigned number, struct frame *frame)
{
    /* A query for www.example.com: its question and an EDNS record are 44 bytes. */
    static const char text[] = "a query of 44 bytes, as DNS queries often ar";
    char client[64], server[64];
    unsigned client_family = answers ? 6 : mode->family;
    uint16_t port = (uint16_t)(1024 + number * 37 % 60000);

    (void)snprintf(client, sizeof(client),
                   client_family == 4 ? "192.0.2.%u" : answers ? "64:ff9b::c000:2%02x" : "2001:db8:c::%x",
                   1 + number % 250);
    if (answers)
        backend_address(6, vip, number % BACKENDS, server, sizeof(server));
    else
        vip_address(mode->family, vip, server, sizeof(server));
    frame_start(frame);
    frame_eth(frame, "02:00:00:00:00:01", "02:00:00:00:00:02", client_family == 4 ? 0x0800 : 0x86dd);
    frame_ip(frame, (struct ip){.src = answers ? server : client, .dst = answers ? client : server, .proto = 17});
    frame_udp(frame, answers ? 53 : port, answers ? port : 53);
    frame_text(frame, text);
    frame_finish(frame);
}

void mode_packets(const struct mode *mode, bool answers, unsigned vips, struct packets *packets)
{
    static struct frame frame;

    packets->port = answers ? DEVICE_OUT : DEVICE_IN;
    for (unsigned i = 0; i < PACKETS; i++) {
        make_frame(mode, answers, vips - 1, i, &frame);
        REQUIRE(frame.length <= PACKET_MAX);
        packets->length = frame.length;
        memcpy(packets->bytes[i], frame.bytes, frame.length);
    }
}
