/* SPDX-License-Identifier: Apache-2.0 */
/* IP in IP, the four combinations, byte by byte. In the example b1 has an IPv4 address and b2 an IPv6 address. */
#include "rig.h"

/* The query as it must leave: the tunnel's headers, then the IP packet as it came. The outer IPv4 header has
 * identification 0, so DF is set (RFC 6864); ECN is 0 outside, whatever it is inside (RFC 6040, compatibility mode). */
static void expect_tunnel_of(const struct frame *frame, bool inner6, bool outer6)
{
    struct doca_flow_model_result result = rig_send(PORT_IN, frame, DOCA_FLOW_MODEL_SENT);
    struct frame in = *frame, outer;
    size_t header = outer6 ? 14 + 40 : 14 + 20;

    frame_start(&outer);
    frame_eth(&outer, "02:00:00:00:00:01", outer6 ? "02:00:00:00:00:12" : "02:00:00:00:00:11",
              outer6 ? 0x86dd : 0x0800);
    frame_ip(&outer, outer6 ? (struct ip){.src = "2001:db8::1", .dst = "2001:db8::12", .proto = inner6 ? 41 : 4}
                            : (struct ip){.src = "192.0.2.1", .dst = "192.0.2.11", .proto = inner6 ? 41 : 4,
                                          .fragment = DOCA_FLOW_IP4_FLAG_DONT_FRAGMENT});
    assert_int_equal(outer.length, header);
    memcpy(outer.bytes + header, in.bytes + 14, in.length - 14);
    outer.length = header + in.length - 14;
    frame_finish(&outer);
    assert_int_equal(result.outputs[0].length, outer.length);
    assert_true(memcmp(result.outputs[0].frame, outer.bytes, outer.length) == 0);
    doca_flow_model_result_free(&result);
}

static void expect_tunnel(struct rig_packet packet, bool outer6)
{
    struct frame in;

    rig_frame(&in, packet);
    expect_tunnel_of(&in, strchr(packet.src, ':') != NULL, outer6);
}

static void encapsulates_all_four(void **state)
{
    rig_up("ipip");
    for (unsigned port = 1000; port < 1016; port++) {
        bool outer6 = (port >> 1) % 2 == 1;

        expect_tunnel((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)port}, outer6);
        expect_tunnel((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .src_port = (uint16_t)port},
                      outer6);
    }
    assert_int_equal(rig_counter("vips/0/backends/b1/packets"), 8);
    assert_int_equal(rig_counter("vips/1/backends/b2/packets"), 8);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* Queries that are ECN-capable or marked, have DF or an identification: all of that stays inside. */
static void keeps_to_its_own_header(void **state)
{
    static const uint8_t marks[] = {0x01, 0x02, 0x03, 0xbb};

    rig_up("ipip");
    for (unsigned outer6 = 0; outer6 < 2; outer6++)
        for (size_t i = 0; i < sizeof(marks); i++)
            for (unsigned inner6 = 0; inner6 < 2; inner6++) {
                struct frame in;

                frame_start(&in);
                frame_eth(&in, "02:00:00:00:00:99", "02:00:00:00:00:98", inner6 ? 0x86dd : 0x0800);
                frame_ip(&in, (struct ip){.src = inner6 ? "2001:db8::9" : "192.0.2.9",
                                          .dst = inner6 ? "2001:db8:1::1" : "198.51.100.1", .tos = marks[i], .ttl = 7,
                                          .proto = 17, .id = inner6 ? 0 : 4711,
                                          .fragment = inner6 ? 0 : DOCA_FLOW_IP4_FLAG_DONT_FRAGMENT});
                frame_udp(&in, (uint16_t)(1000 + 2 * outer6), 53);
                frame_text(&in, "query");
                frame_finish(&in);
                expect_tunnel_of(&in, inner6, outer6);
            }
    rig_down();
}

static json_t *mixed(void)
{
    json_t *json = rig_json("ipip");

    rig_put(json, "vips/1/forward", json_string("l2"));
    rig_put(json, "vips/0/select", json_string("client"));
    rig_put(json, "vips/0/hash_fields", json_pack("[s,s,s,s]", "src_ip", "dst_ip", "src_port", "dst_port"));
    return json;
}

/* Tunnels and packets without one side by side, whatever a forward to the port leads through. */
static void expect_plain_and_tunnels(bool egress_by_port)
{
    struct frame frame;

    doca_flow_model_set_egress_by_port(egress_by_port);
    rig_up_json(mixed());
    for (unsigned port = 0; port < 64; port++) {
        (void)rig_backend_unchanged((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1",
                                                        .src_port = (uint16_t)port});
        rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)port});
        rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    }
    assert_true(rig_counter("vips/0/backends/b1/packets") > 15);
    assert_true(rig_counter("vips/0/backends/b2/packets") > 15);
    assert_int_equal(rig_missed(), 0);
    rig_down();
    doca_flow_model_set_egress_by_port(false);
}

static void lets_plain_packets_through(void **state)
{
    expect_plain_and_tunnels(false);
    expect_plain_and_tunnels(true);
}

/* The first tunnel comes with a load: until then there is no egress pipe, and packets do not notice. */
static void opens_tunnels_on_the_way(void **state)
{
    json_t *json = mixed();

    rig_put(json, "vips/0/forward", json_string("l2"));
    rig_up_json(json);
    (void)rig_backend_unchanged((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 7});
    rig_load(rig_json("ipip"));
    expect_tunnel((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 0}, false);
    expect_tunnel((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .src_port = 2}, true);
    rig_load(mixed());
    (void)rig_backend_unchanged((struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .src_port = 7});
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* One entry per tunnel is changed, however many slots point to it. */
static void changes_a_tunnel_in_place(void **state)
{
    json_t *json = rig_json("ipip");
    struct doca_flow_model_result result;
    struct frame frame;

    rig_up("ipip");
    rig_put(json, "backends/0/mac", json_string("02:00:00:00:00:77"));
    rig_load(json);
    assert_int_equal(rig.dataplane.targets_updated, 2);
    assert_int_equal(rig.dataplane.slots_updated + rig.dataplane.added + rig.dataplane.replaced, 0);
    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1"});
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[5], 0x77);
    doca_flow_model_result_free(&result);

    /* An address of the other IP version is another tunnel; slots move to it. */
    json = rig_json("ipip");
    rig_put(json, "backends/0/address", json_string("2001:db8::11"));
    rig_load(json);
    assert_int_equal(rig.dataplane.slots_updated, 8);
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[12], 0x86);
    assert_int_equal(result.outputs[0].frame[53], 0x11);
    doca_flow_model_result_free(&result);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(encapsulates_all_four),
        cmocka_unit_test(keeps_to_its_own_header),
        cmocka_unit_test(lets_plain_packets_through),
        cmocka_unit_test(opens_tunnels_on_the_way),
        cmocka_unit_test(changes_a_tunnel_in_place),
    };

    return cmocka_run_group_tests_name("ext_ipip", tests, NULL, NULL);
}
