/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as nobody should send them: cut short, with lengths that lie, with options, fragments, tunnels in tunnels. */
#include "fuzz.h"

static uint32_t random_state = 1;

static uint32_t draw(void)
{
    random_state = random_state * 1664525U + 1013904223U;
    return random_state >> 8;
}

/* Every prefix, each in memory of its own so that reading past the end is seen. */
static void every_prefix(const struct frame *frame)
{
    for (size_t length = 1; length <= frame->length; length++) {
        uint8_t *copy = malloc(length);

        assert_true(copy != NULL);
        memcpy(copy, frame->bytes, length);
        (void)LLVMFuzzerTestOneInput(copy, length);
        free(copy);
    }
}

/* Every byte with the values that hurt, and some combinations. */
static void every_byte(const struct frame *frame)
{
    static const uint8_t values[] = {0x00, 0xff, 0x7f, 0x80, 0x45, 0x4f, 0x60, 0x2c, 0x29, 0x04};
    static struct frame copy;

    for (size_t at = 0; at < frame->length && at < 120; at++)
        for (size_t i = 0; i < sizeof(values); i++) {
            copy = *frame;
            copy.bytes[at] = values[i];
            (void)LLVMFuzzerTestOneInput(copy.bytes, copy.length);
        }
    for (unsigned i = 0; i < 3000; i++) {
        copy = *frame;
        for (unsigned n = draw() % 6; n > 0; n--)
            copy.bytes[draw() % frame->length] = (uint8_t)draw();
        (void)LLVMFuzzerTestOneInput(copy.bytes, 1 + draw() % copy.length);
    }
}

static void abuse(const struct frame *frame)
{
    every_prefix(frame);
    every_byte(frame);
}

static void plain_packets(void **state)
{
    static struct frame frame;

    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 53);
    abuse(&frame);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 6, 1, 53);
    abuse(&frame);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 17, 1, 53);
    abuse(&frame);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 6, 1, 53);
    abuse(&frame);
}

static void tags_and_options(void **state)
{
    static const uint8_t options[40] = {0x94, 0x04, 0, 0, 7, 35};
    static struct frame frame;

    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x8100);
    frame_vlan(&frame, 0xfff, 0x8100);
    frame_vlan(&frame, 0x001, 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 17, .options = options,
                                 .options_length = 40});
    frame_udp(&frame, 1, 2);
    frame_finish(&frame);
    abuse(&frame);
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
    frame_ip(&frame, (struct ip){.src = "2001:db8::1", .dst = "2001:db8::2", .proto = 0});
    frame_text(&frame, "\x2b\x03........-------------......");        /* hop by hop, then routing */
    frame_text(&frame, "\x2c\x01..............\x11.\x01\x01....");    /* then a fragment header, then UDP */
    frame_udp(&frame, 1, 2);
    abuse(&frame);
}

static void tunnels(void **state)
{
    static struct frame frame;

    for (unsigned outer6 = 0; outer6 < 2; outer6++)
        for (unsigned inner6 = 0; inner6 < 2; inner6++) {
            frame_start(&frame);
            frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", outer6 ? 0x86dd : 0x0800);
            frame_ip(&frame, (struct ip){.src = outer6 ? "::1" : "127.0.0.1", .dst = outer6 ? "::2" : "127.0.0.2",
                                         .proto = inner6 ? 41 : 4});
            frame_ip(&frame, (struct ip){.src = inner6 ? "::1" : "127.0.0.1", .dst = inner6 ? "::2" : "127.0.0.2",
                                         .proto = 17});
            frame_udp(&frame, 1, 2);
            frame_finish(&frame);
            abuse(&frame);
        }
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800);
    frame_ip(&frame, (struct ip){.src = "127.0.0.1", .dst = "127.0.0.2", .proto = 17});
    frame_udp(&frame, 1, 4789);
    frame_vxlan(&frame, 7);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800);
    frame_ip(&frame, (struct ip){.src = "127.0.0.1", .dst = "127.0.0.2", .proto = 6});
    frame_tcp(&frame, 1, 2);
    frame_finish(&frame);
    abuse(&frame);
}

static void full_length(void **state)
{
    static struct frame frame;
    struct doca_flow_model_result result;

    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 53);
    frame.length = 65535;
    (void)LLVMFuzzerTestOneInput(frame.bytes, frame.length);
    frame.bytes[16] = frame.bytes[17] = 0xff; /* and a claim of 65,535 bytes of IP, which do not fit */
    (void)LLVMFuzzerTestOneInput(frame.bytes, frame.length);
    (void)LLVMFuzzerTestOneInput(frame.bytes, 60);
    assert_doca_refused(doca_flow_model_receive(0, frame.bytes, 65536, &result), DOCA_ERROR_INVALID_VALUE, "65536 bytes");
    assert_doca_refused(doca_flow_model_receive(0, frame.bytes, 0, &result), DOCA_ERROR_INVALID_VALUE, "0 bytes");
    assert_doca_refused(doca_flow_model_receive(77, frame.bytes, 60, &result), DOCA_ERROR_INVALID_VALUE, "port 77");
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_packets),
        cmocka_unit_test(tags_and_options),
        cmocka_unit_test(tunnels),
        cmocka_unit_test(full_length),
    };

    return cmocka_run_group_tests_name("malformed", tests, NULL, NULL);
}
