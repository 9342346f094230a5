/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that are right but rare, and lengths that lie: what each way of forwarding does with them. */
#include "rig.h"

static const char *const examples[] = {"l2-slots", "ipip", "siit"};
enum { L2, IPIP, SIIT, EXAMPLES };

static struct frame frame;

static void start4(struct ip ip)
{
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800);
    ip.src = "192.0.2.9";
    ip.dst = "198.51.100.1";
    ip.proto = 17;
    frame_ip(&frame, ip);
}

static void start6(uint8_t proto)
{
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
    frame_ip(&frame, (struct ip){.src = "2001:db8::9", .dst = "2001:db8:1::1", .proto = proto});
}

/* The frame ends so, and one more is counted there. */
static void expect_dropped(const char *reason)
{
    char path[64];
    json_int_t before;

    (void)snprintf(path, sizeof(path), "dropped/in/%s", reason);
    before = rig_counter(path);
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_counter(path), before + 1);
}

static void expect(enum doca_flow_model_verdict verdict)
{
    struct doca_flow_model_result result;

    assert_doca_ok(doca_flow_model_receive(PORT_IN, frame.bytes, frame.length, &result));
    if (result.outputs[0].verdict != verdict)
        (void)fprintf(stderr, "%s: %s\n", doca_flow_model_verdict_name(result.outputs[0].verdict),
                      result.outputs[0].reason);
    assert_int_equal(result.outputs[0].verdict, verdict);
    doca_flow_model_result_free(&result);
}

static void passes_on_what_is_rare(void **state)
{
    static const uint8_t options[8] = {0x94, 0x04};

    for (unsigned i = 0; i < EXAMPLES; i++) {
        /* Neither translates: options have no counterpart, and IPv6 has no UDP without a checksum. */
        enum doca_flow_model_verdict rare = i == SIIT ? DOCA_FLOW_MODEL_UNPROVEN : DOCA_FLOW_MODEL_SENT;

        rig_up(examples[i]);
        start4((struct ip){.options = options, .options_length = sizeof(options)});
        frame_udp(&frame, 1000, 53);
        frame_finish(&frame);
        expect(rare);
        start4((struct ip){0});
        frame_udp(&frame, 1000, 53);
        frame_finish(&frame);
        memset(frame.bytes + 14 + 20 + 6, 0, 2);
        expect(rare);
        frame.length += 18; /* as Ethernet fills up what is short */
        memset(frame.bytes + frame.length - 18, 0, 18);
        expect(rare);
        if (i != SIIT) { /* hop by hop, then destination options */
            start6(0);
            frame_text(&frame, "\x3c\x01..............\x11\x01..............");
            frame_udp(&frame, 1000, 53);
            frame_finish(&frame);
            expect(DOCA_FLOW_MODEL_SENT);
        }
        assert_int_equal(rig_missed(), 0);
        rig_down();
    }
}

/* First, middle and last ones, and, in IPv6, those that are whole. */
static void drops_fragments(void **state)
{
    static const uint16_t offsets[] = {0x2000, 0x2010, 0x0010};

    for (unsigned i = 0; i < EXAMPLES; i++) {
        rig_up(examples[i]);
        for (unsigned n = 0; n < 3; n++) {
            start4((struct ip){.id = 7, .fragment = offsets[n]});
            frame_udp(&frame, 1000, 53);
            frame_finish(&frame);
            expect_dropped("fragment");
            start6(44);
            frame_text(&frame, n == 0 ? "\x11.\x01\x01...." : n == 1 ? "\x11.\x01\x09...." : "\x11.\x01\x08....");
            frame.bytes[56] = n == 0 ? 0 : 1; /* the offset's upper byte */
            frame_udp(&frame, 1000, 53);
            frame_finish(&frame);
            expect_dropped("fragment");
        }
        start6(44);
        frame_text(&frame, "\x11.zz....");
        frame.bytes[56] = frame.bytes[57] = 0;
        frame_udp(&frame, 1000, 53);
        frame_finish(&frame);
        expect_dropped("fragment");
        rig_down();
    }
}

static void fix_header(void)
{
    uint32_t sum = 0;

    memset(frame.bytes + 24, 0, 2);
    for (unsigned i = 14; i < 34; i += 2)
        sum += (uint32_t)frame.bytes[i] << 8 | frame.bytes[i + 1];
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    frame.bytes[24] = (uint8_t)(~sum >> 8);
    frame.bytes[25] = (uint8_t)~sum;
}

static void drops_lengths_that_lie(void **state)
{
    for (unsigned i = 0; i < EXAMPLES; i++) {
        rig_up(examples[i]);
        start4((struct ip){0});
        frame_udp(&frame, 1000, 53);
        frame_text(&frame, "payload");
        frame_finish(&frame);
        frame.bytes[16] = frame.bytes[17] = 0xff; /* 64 KiB, in a frame of 49 bytes */
        fix_header();
        expect_dropped("malformed_ipv4");
        frame.bytes[16] = 0; /* shorter than its own header */
        frame.bytes[17] = 19;
        fix_header();
        expect_dropped("malformed_ipv4");
        frame.bytes[17] = 20; /* no UDP at all */
        fix_header();
        expect_dropped("other");
        frame.bytes[17] = 20 + 8 + 7;
        fix_header();
        frame.bytes[14 + 20 + 5] = 8 + 8; /* UDP beyond its packet */
        expect_dropped("other");
        frame.bytes[14 + 20 + 5] = 7; /* UDP shorter than its header */
        expect_dropped("other");
        start6(0);
        frame_text(&frame, "\x11zzzzzzz"); /* a jumbo payload: length 0, the true one in an option */
        memcpy(frame.bytes + 55, "\0\xc2\x04\0\x01\0\0", 7);
        frame_udp(&frame, 1000, 53);
        frame_finish(&frame);
        memset(frame.bytes + 18, 0, 2);
        expect_dropped("other");
        start6(0);
        frame_text(&frame, "\x11\xff......"); /* an extension longer than its packet */
        frame_udp(&frame, 1000, 53);
        frame_finish(&frame);
        expect_dropped("malformed_ipv6");
        rig_down();
    }
}

/* The longest frame there is: what makes it longer has no room, and nothing is written past its end. */
static void takes_64_kib(void **state)
{
    for (unsigned i = 0; i < EXAMPLES; i++) {
        struct doca_flow_model_result result;

        rig_up(examples[i]);
        start4((struct ip){0});
        frame_udp(&frame, 1000, 53);
        memset(frame.bytes + frame.length, 'x', 65535 - frame.length);
        frame.length = 65535;
        frame_finish(&frame);
        assert_doca_ok(doca_flow_model_receive(PORT_IN, frame.bytes, frame.length, &result));
        assert_int_equal(result.count, 1);
        assert_int_equal(result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT, i == L2);
        doca_flow_model_result_free(&result);
        rig_down();
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_on_what_is_rare),
        cmocka_unit_test(drops_fragments),
        cmocka_unit_test(drops_lengths_that_lie),
        cmocka_unit_test(takes_64_kib),
    };

    return cmocka_run_group_tests_name("ext_odd", tests, NULL, NULL);
}
