/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes into either port, with each of the example programs loaded. The first byte says which port and program, the
 * rest is a frame. */
#include "target.h"

#include "../ext/rig.h"
#include "log.h"

enum { PROGRAMS_ALL = 5, FROM_OUT = 0x80, ETHERNET = 14 };

static const char *const names[PROGRAMS_ALL] = {"l2-slots", "l2-client", "l2-spray", "ipip", "siit"};
static unsigned loaded = PROGRAMS_ALL; /* none */

static void load(unsigned number)
{
    json_t *json = rig_json(names[number]);

    rig_put(json, "budgets", json_pack("{s:i,s:i,s:i,s:i}", "vips", 8, "slots", 256, "backends", 16, "counters", 320));
    if (loaded == PROGRAMS_ALL) {
        log_set_level(LOG_NOTHING);
        doca_flow_model_set_strict(true);
        rig_up_json(json);
    } else {
        rig_load(json);
    }
    loaded = number;
}

static uint32_t sum(uint32_t start, const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        start += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
    while (start > 0xffff)
        start = (start & 0xffff) + (start >> 16);
    return start;
}

/* The L4 checksum of a packet without options, for comparison; 0xffff is right. */
static uint32_t l4_sum(const uint8_t *ip)
{
    bool ip4 = ip[0] >> 4 == 4;
    size_t header = ip4 ? 20 : 40;
    size_t length = ip4 ? (size_t)(ip[2] << 8 | ip[3]) - 20 : (size_t)(ip[4] << 8 | ip[5]);
    uint32_t start = (uint32_t)length + (ip4 ? ip[9] : ip[6]);

    return sum(sum(start, ip + (ip4 ? 12 : 8), ip4 ? 8 : 32), ip + header, length);
}

/* Where IP starts behind up to two VLAN tags. */
static size_t ip_at(const uint8_t *frame)
{
    size_t at = 12;

    for (unsigned tags = 0; tags < 2 && (memcmp(frame + at, "\x81\0", 2) == 0 || memcmp(frame + at, "\x88\xa8", 2) == 0);
         tags++)
        at += 4;
    return at + 2;
}

static void check_l2(const struct doca_flow_model_output *out, const uint8_t *frame, size_t length)
{
    assert_int_equal(out->length, length);
    assert_true(memcmp(out->frame, "\x02\0\0\0\0", 5) == 0 && (out->frame[5] == 0x11 || out->frame[5] == 0x12));
    assert_true(memcmp(out->frame + 6, frame + 6, length - 6) == 0);
}

static void check_ipip(const struct doca_flow_model_output *out, const uint8_t *frame, size_t length)
{
    size_t outer = ETHERNET + (out->frame[12] == 0x08 ? 20U : 40U), at = ip_at(frame);

    assert_int_equal(out->length - outer, length - at);
    assert_true(memcmp(out->frame + outer, frame + at, length - at) == 0);
    if (outer == ETHERNET + 20)
        assert_int_equal(sum(0, out->frame + ETHERNET, 20), 0xffff);
}

static void check_siit(const struct doca_flow_model_output *out, const uint8_t *frame)
{
    const uint8_t *in = frame + ip_at(frame), *ip = out->frame + ip_at(out->frame);

    assert_int_equal(ip[0] >> 4, in[0] >> 4 == 4 ? 6 : 4);
    if (ip[0] >> 4 == 4)
        assert_int_equal(sum(0, ip, 20), 0xffff);
    assert_int_equal(l4_sum(ip) == 0xffff, l4_sum(in) == 0xffff); /* right stays right, wrong stays wrong */
}

static void check_sent(const struct doca_flow_model_output *out, uint16_t port, const uint8_t *frame, size_t length)
{
    assert_int_equal(out->port_id, 1 - port);
    switch (loaded) {
    case 3:
        check_ipip(out, frame, length);
        break;
    case 4:
        check_siit(out, frame);
        break;
    default:
        check_l2(out, frame, length);
        break;
    }
}

static void check(const struct doca_flow_model_output *out, uint16_t port, const uint8_t *frame, size_t length)
{
    switch (out->verdict) {
    case DOCA_FLOW_MODEL_SENT:
        check_sent(out, port, frame, length);
        break;
    case DOCA_FLOW_MODEL_DROPPED: /* what passes the classifier meets an entry of every pipe behind it */
        assert_true(strncmp(out->reason, "classifier: ", 12) == 0);
        break;
    case DOCA_FLOW_MODEL_UNPROVEN: /* options and UDP without a checksum cannot be translated, 64 KiB not be wrapped */
        assert_true(loaded == 4 || length > 65535 - 40);
        break;
    case DOCA_FLOW_MODEL_KERNEL:
    case DOCA_FLOW_MODEL_QUEUED:
    case DOCA_FLOW_MODEL_MISSED:
    case DOCA_FLOW_MODEL_BROKEN:
    default:
        (void)fprintf(stderr, "%s: %s\n", doca_flow_model_verdict_name(out->verdict), out->reason);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct doca_flow_model_result result;
    uint16_t port;

    if (size < 2 || size > 65536)
        return 0;
    port = data[0] & FROM_OUT ? PORT_OUT : PORT_IN;
    if ((data[0] & 0x7fU) % PROGRAMS_ALL != loaded)
        load((data[0] & 0x7fU) % PROGRAMS_ALL);
    assert_doca_ok(doca_flow_model_receive(port, data + 1, size - 1, &result));
    assert_int_equal(result.count, 1);
    check(&result.outputs[0], port, data + 1, size - 1);
    doca_flow_model_result_free(&result);
    return 0;
}

/* Most mutations get a right IPv4 header checksum, or all of them would end at that. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size_t at, header;

    size = LLVMFuzzerMutate(data, size, room);
    if (seed % 8 == 0 || size < 1 + 22 + 20)
        return size;
    at = 1 + ip_at(data + 1);
    header = (data[at] & 15U) * 4U;
    if (data[at] >> 4 != 4 || header < 20 || at + header > size)
        return size;
    data[at + 10] = data[at + 11] = 0;
    header = ~sum(0, data + at, header) & 0xffff;
    data[at + 10] = (uint8_t)(header >> 8);
    data[at + 11] = (uint8_t)header;
    return size;
}

static struct frame frame;

static void use_frame(seed_user use, const char *name, uint8_t first)
{
    static uint8_t data[2000];

    assert_true(frame.length < sizeof(data));
    data[0] = first;
    memcpy(data + 1, frame.bytes, frame.length);
    use(name, data, frame.length + 1);
}

static void seed_queries(seed_user use, uint8_t program)
{
    char name[64];

    for (unsigned i = 0; i < 4; i++) {
        rig_frame(&frame, (struct rig_packet){.src = i % 2 ? "2001:db8::9" : "192.0.2.9",
                                              .dst = i % 2 ? "2001:db8:1::1" : "198.51.100.1",
                                              .protocol = i < 2 ? 17 : 6, .src_port = 1000});
        (void)snprintf(name, sizeof(name), "%s-query%u", names[program], i);
        use_frame(use, name, program);
    }
}

static void seed_odd(seed_user use)
{
    static const uint8_t options[8] = {0x94, 0x04};

    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x8100);
    frame_vlan(&frame, 7, 0x8100);
    frame_vlan(&frame, 8, 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.9", .dst = "198.51.100.1", .proto = 17, .options = options,
                                 .options_length = sizeof(options)});
    frame_udp(&frame, 1000, 53);
    frame_finish(&frame);
    for (uint8_t i = 0; i < PROGRAMS_ALL; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "%s-options", names[i]);
        use_frame(use, name, i);
    }
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.9", .dst = "198.51.100.1", .proto = 17, .id = 1, .fragment = 0x2000});
    frame_udp(&frame, 1000, 53);
    frame_finish(&frame);
    use_frame(use, "fragment4", 3);
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
    frame_ip(&frame, (struct ip){.src = "2001:db8::9", .dst = "2001:db8:1::1", .proto = 0});
    frame_text(&frame, "\x3c\x01..............\x11\x01..............");
    frame_udp(&frame, 1000, 53);
    frame_finish(&frame);
    use_frame(use, "extensions6", 3);
}

void each_seed(seed_user use)
{
    for (uint8_t i = 0; i < PROGRAMS_ALL; i++)
        seed_queries(use, i);
    seed_odd(use);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    use_frame(use, "siit-answer-udp", FROM_OUT | 4);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::12", .dst = "64:ff9b::1", .protocol = 6, .src_port = 53,
                                          .dst_port = 9});
    use_frame(use, "siit-answer-tcp", FROM_OUT | 4);
}
