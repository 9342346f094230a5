/* SPDX-License-Identifier: Apache-2.0 */
/* Queries to the backends' MAC addresses: which slot a packet gets, what leaves, what is counted. */
#include "rig.h"

static void follows_the_source_port(void **state)
{
    rig_up("l2-slots");
    for (unsigned port = 1024; port < 1024 + 64; port++) {
        unsigned slot = port >> 1 & 7, expected = slot % 2 == 0 ? 0x11 : 0x12;

        assert_int_equal(rig_backend_unchanged((struct rig_packet){.src = "192.0.2.200", .dst = "198.51.100.1",
                                                                   .src_port = (uint16_t)port}), expected);
        assert_int_equal(rig_backend_unchanged((struct rig_packet){.src = "192.0.2.200", .dst = "198.51.100.1", .protocol = 6,
                                                                   .src_port = (uint16_t)port}), expected);
        assert_int_equal(rig_backend_unchanged((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1",
                                                                   .src_port = (uint16_t)port}), expected);
    }
    assert_int_equal(rig_counter("vips/0/packets"), 64);
    assert_int_equal(rig_counter("vips/0/backends/b1/packets"), 32);
    assert_int_equal(rig_counter("vips/0/backends/b2/packets"), 32);
    assert_int_equal(rig_counter("vips/2/packets"), 64);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* The classifier's keys are the parser's, which looks behind VLAN tags; tags stay. */
static void serves_tagged_queries(void **state)
{
    static const char macs[2][18] = {"02:00:00:00:00:99", "02:00:00:00:00:98"};
    struct doca_flow_model_result result;
    struct frame in;

    rig_up("l2-slots");
    for (unsigned tags = 1; tags <= 2; tags++)
        for (unsigned ip6 = 0; ip6 < 2; ip6++) {
            uint16_t type = ip6 ? 0x86dd : 0x0800;

            frame_start(&in);
            frame_eth(&in, macs[0], macs[1], 0x8100);
            frame_vlan(&in, 0x2064, tags == 1 ? type : 0x8100);
            if (tags == 2)
                frame_vlan(&in, 0x0065, type);
            frame_ip(&in, (struct ip){.src = ip6 ? "2001:db8::9" : "192.0.2.9",
                                      .dst = ip6 ? "2001:db8:1::1" : "198.51.100.1", .proto = 17});
            frame_udp(&in, 1000, 53);
            frame_text(&in, "query");
            frame_finish(&in);
            result = rig_send(PORT_IN, &in, DOCA_FLOW_MODEL_SENT);
            assert_int_equal(result.outputs[0].length, in.length);
            assert_true(memcmp(result.outputs[0].frame + 6, in.bytes + 6, in.length - 6) == 0);
            assert_int_equal(result.outputs[0].frame[5], 0x11);
            doca_flow_model_result_free(&result);
        }
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void keeps_a_client_at_its_backend(void **state)
{
    unsigned seen[256] = {0};

    rig_up("l2-client");
    for (unsigned i = 1; i < 200; i++) {
        char src[32];
        unsigned backend;

        (void)snprintf(src, sizeof(src), "192.0.2.%u", i);
        backend = rig_backend_unchanged((struct rig_packet){.src = src, .dst = "198.51.100.1", .src_port = 1000});
        seen[backend]++;
        for (unsigned port = 2000; port < 2010; port++)
            assert_int_equal(rig_backend((struct rig_packet){.src = src, .dst = "198.51.100.1", .src_port = (uint16_t)port}),
                             backend);
    }
    assert_int_equal(seen[0x11] + seen[0x12], 199);
    assert_true(seen[0x11] > 60 && seen[0x12] > 60);
    /* Here the port is part of the client. */
    memset(seen, 0, sizeof(seen));
    for (unsigned port = 1; port < 200; port++)
        seen[rig_backend((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1",
                                             .src_port = (uint16_t)port})]++;
    assert_true(seen[0x11] > 60 && seen[0x12] > 60);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void sprays(void **state)
{
    unsigned seen[256] = {0};

    rig_up("l2-spray");
    for (unsigned i = 0; i < 400; i++)
        seen[rig_backend_unchanged((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 9})]++;
    assert_true(seen[0x11] > 150 && seen[0x12] > 150);
    memset(seen, 0, sizeof(seen));
    for (unsigned i = 0; i < 400; i++)
        seen[rig_backend_unchanged((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .protocol = 6,
                                                       .src_port = 9})]++;
    assert_true(seen[0x11] > 150 && seen[0x12] > 150);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void drops_and_counts_other_packets(void **state)
{
    struct frame frame;

    rig_up("l2-slots");
    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.2", .src_port = 9});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED); /* no VIP */
    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 9, .dst_port = 54});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED); /* no service */
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .protocol = 6, .src_port = 9});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED); /* not in this protocol */
    assert_int_equal(rig_counter("dropped/in/other"), 3);

    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 9});
    frame.bytes[24] ^= 0xff; /* header checksum */
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_counter("dropped/in/ipv4_checksum"), 1);
    frame.bytes[16] = 0x7f; /* total length */
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_counter("dropped/in/malformed_ipv4"), 1);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .src_port = 9});
    frame.bytes[18] = 0x7f; /* payload length */
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_counter("dropped/in/malformed_ipv6"), 1);

    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:02", "02:00:00:00:00:03", 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.9", .dst = "198.51.100.1", .proto = 17, .fragment = 0x2000});
    frame_udp(&frame, 9, 53);
    frame_text(&frame, "fragment");
    frame_finish(&frame);
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_counter("dropped/in/fragment"), 1);

    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED); /* nothing comes in there */
    assert_int_equal(rig_counter("dropped/out/other"), 1);
    assert_int_equal(rig_counter("vips/0/packets"), 0);
    rig_down();
}

/* Frames of all lengths and with any damage end somewhere, and every frame is counted once. */
static void survives_malformed_frames(void **state)
{
    struct frame frame;
    unsigned seed = 7, sent = 0;
    json_int_t counted = 0;

    rig_up("l2-slots");
    for (unsigned i = 0; i < 4000; i++) {
        struct doca_flow_model_result result;

        rig_frame(&frame, (struct rig_packet){.src = i % 2 ? "192.0.2.9" : "2001:db8::9",
                                              .dst = i % 2 ? "198.51.100.1" : "2001:db8:1::1",
                                              .src_port = (uint16_t)i});
        for (unsigned damage = 0; damage < 1 + i % 3; damage++) {
            seed = seed * 1103515245U + 12345U;
            frame.bytes[12 + (seed >> 8) % (frame.length - 12)] = (uint8_t)(seed >> 24);
        }
        if (i % 5 == 0)
            frame.length = 1 + (seed >> 12) % frame.length;
        assert_doca_ok(doca_flow_model_receive(PORT_IN, frame.bytes, frame.length, &result));
        assert_int_equal(result.count, 1);
        assert_true(result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT || result.outputs[0].verdict == DOCA_FLOW_MODEL_DROPPED);
        sent += result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT;
        doca_flow_model_result_free(&result);
    }
    for (enum drop_reason reason = DROP_MALFORMED4; reason < DROP_REASONS; reason++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "dropped/in/%s", drop_reason_name(reason));
        counted += rig_counter(path);
    }
    assert_int_equal(counted + rig_counter("vips/0/packets") + rig_counter("vips/1/packets") + rig_counter("vips/2/packets"),
                     4000);
    assert_int_equal(rig_counter("vips/0/packets") + rig_counter("vips/1/packets") + rig_counter("vips/2/packets"), sent);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void takes_one_slot_and_the_most(void **state)
{
    json_t *json = rig_json("l2-slots"), *slots = json_array();

    rig_put(json, "vips/0/slots", json_pack("[s]", "b2"));
    for (unsigned i = 0; i < SLOTS_MAX; i++)
        assert_int_equal(json_array_append_new(slots, json_string(i % 3 == 0 ? "b1" : "b2")), 0);
    rig_put(json, "vips/2/slots", slots);
    rig_put(json, "budgets/slots", json_integer(40000));
    rig_put(json, "budgets/counters", json_integer(50000));
    rig_up_json(json);
    for (unsigned port = 1; port < 65536; port += 321) {
        assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1",
                                                         .src_port = (uint16_t)port}), 0x12);
        assert_int_equal(rig_backend((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1",
                                                         .src_port = (uint16_t)port}), (port >> 1) % 3 == 0 ? 0x11 : 0x12);
    }
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_source_port),
        cmocka_unit_test(serves_tagged_queries),
        cmocka_unit_test(keeps_a_client_at_its_backend),
        cmocka_unit_test(sprays),
        cmocka_unit_test(drops_and_counts_other_packets),
        cmocka_unit_test(survives_malformed_frames),
        cmocka_unit_test(takes_one_slot_and_the_most),
    };

    return cmocka_run_group_tests_name("ext_l2", tests, NULL, NULL);
}
