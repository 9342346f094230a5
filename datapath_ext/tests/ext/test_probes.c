/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: frames to the MAC address of probes, whose source port names the backend, with slots or without. In the example b3 has
 * no slot, and one VIP has none at all. */
#include "rig.h"

static const char client_mac[] = "02:00:00:00:00:98", probe_mac[] = "02:00:00:00:00:03";

static void build(struct frame *frame, const char *dst_mac, struct ip ip, uint16_t src_port, uint16_t dst_port)
{
    frame_start(frame);
    frame_eth(frame, "02:00:00:00:00:99", dst_mac, strchr(ip.src, ':') != NULL ? 0x86dd : 0x0800);
    frame_ip(frame, ip);
    if (ip.proto == 17)
        frame_udp(frame, src_port, dst_port);
    else
        frame_tcp(frame, src_port, dst_port);
    frame_text(frame, "are you well?");
    frame_finish(frame);
}

/* The last byte of the MAC address that the query leaves to; 0: dropped. */
static unsigned backend_of(const char *dst_mac, const char *src, const char *dst, uint8_t protocol, uint16_t src_port)
{
    struct doca_flow_model_result result;
    struct frame frame;
    unsigned backend = 0;

    build(&frame, dst_mac, (struct ip){.src = src, .dst = dst, .proto = protocol}, src_port, 53);
    assert_doca_ok(doca_flow_model_receive(PORT_IN, frame.bytes, frame.length, &result));
    if (result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT)
        backend = result.outputs[0].frame[5];
    else
        assert_int_equal(result.outputs[0].verdict, DOCA_FLOW_MODEL_DROPPED);
    doca_flow_model_result_free(&result);
    return backend;
}

static void ports_name_backends(void **state)
{
    static const struct {
        const char *src, *dst;
        uint8_t protocol;
    } ways[] = {{"192.0.2.9", "198.51.100.1", 17}, {"192.0.2.9", "198.51.100.2", 6}, {"2001:db8::9", "2001:db8:1::2", 17}};

    rig_up("probes");
    for (unsigned way = 0; way < 3; way++) {
        for (unsigned port = 0; port < 16; port++) {
            const char *src = ways[way].src, *dst = ways[way].dst;
            uint8_t protocol = ways[way].protocol;

            assert_int_equal(backend_of(probe_mac, src, dst, protocol, (uint16_t)(2049 * 16 + port)), 0x11);
            assert_int_equal(backend_of(probe_mac, src, dst, protocol, (uint16_t)(4095 * 16 + port)), 0x12);
            assert_int_equal(backend_of(probe_mac, src, dst, protocol, (uint16_t)(3000 * 16 + port)), 0x13);
            assert_int_equal(backend_of(probe_mac, src, dst, protocol, (uint16_t)(2048 * 16 + port)), 0);
        }
    }
    /* Each VIP has numbers of its own. */
    assert_int_equal(backend_of(probe_mac, "2001:db8::9", "2001:db8:1::1", 17, 2049 * 16), 0x13);
    assert_int_equal(backend_of(probe_mac, "2001:db8::9", "2001:db8:1::1", 17, 3000 * 16), 0x11);
    assert_int_equal(backend_of(probe_mac, "2001:db8::9", "2001:db8:1::1", 17, 4095 * 16), 0);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 6, 2049 * 16), 0);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void clients_choose_no_backend(void **state)
{
    rig_up("probes");
    for (unsigned port = 3000 * 16; port < 3000 * 16 + 16; port++) {
        /* b3 has no slot. */
        assert_int_equal(backend_of(client_mac, "192.0.2.9", "198.51.100.1", 17, (uint16_t)port),
                         (port >> 1) % 2 == 1 ? 0x12 : 0x11);
        assert_int_not_equal(backend_of(client_mac, "192.0.2.9", "198.51.100.2", 6, (uint16_t)port), 0x13);
        assert_int_equal(backend_of(client_mac, "2001:db8::9", "2001:db8:1::2", 17, (uint16_t)port), 0);
    }
    rig_down();
}

static void counts_clients_alone(void **state)
{
    rig_up("probes");
    (void)backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16);
    (void)backend_of(client_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16);
    assert_int_equal(rig_counter("vips/0/packets"), 1);
    rig_down();
}

static void expect_answer(const char *client, const char *backend, const char *dst_mac)
{
    struct doca_flow_model_result result;
    char mapped[64];
    struct frame in, out;

    (void)snprintf(mapped, sizeof(mapped), "64:ff9b::%s", client);
    build(&in, client_mac, (struct ip){.src = backend, .dst = mapped, .proto = 17}, 53, 2049 * 16);
    if (dst_mac == NULL) {
        rig_expect(PORT_OUT, &in, DOCA_FLOW_MODEL_DROPPED);
        return;
    }
    frame_start(&out);
    frame_eth(&out, "02:00:00:00:00:99", dst_mac, 0x0800);
    frame_ip(&out, (struct ip){.src = "198.51.100.1", .dst = client, .proto = 17});
    frame_udp(&out, 53, 2049 * 16);
    frame_text(&out, "are you well?");
    frame_finish(&out);
    result = rig_send(PORT_OUT, &in, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].length, out.length);
    assert_memory_equal(result.outputs[0].frame, out.bytes, out.length);
    doca_flow_model_result_free(&result);
}

static void translates_answers_to_probes(void **state)
{
    json_t *json = rig_json("probes");

    rig_up("probes");
    expect_answer("192.0.2.9", "2001:db8::11", probe_mac);
    expect_answer("192.0.2.9", "2001:db8::13", probe_mac);
    expect_answer("203.0.113.7", "2001:db8::11", client_mac);
    expect_answer("203.0.113.7", "2001:db8::13", NULL); /* which has no slot */

    /* Another address of probes, and another MAC address. */
    rig_put(json, "probe", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:05", "ipv4", "192.0.2.10"));
    rig_load(json);
    assert_int_equal(rig.dataplane.replaced, 4);
    expect_answer("192.0.2.10", "2001:db8::13", "02:00:00:00:00:05");
    expect_answer("192.0.2.9", "2001:db8::11", client_mac);
    expect_answer("192.0.2.9", "2001:db8::13", NULL);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 3000 * 16), 0x11);
    assert_int_equal(backend_of("02:00:00:00:00:05", "192.0.2.9", "198.51.100.1", 17, 3000 * 16), 0x13);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* Probes come and go without a client's packet noticing; a backend is added, and the others keep their ports. */
static void follows_loads(void **state)
{
    json_t *json = rig_json("probes");

    rig_put(json, "vips/3", NULL);
    rig_put(json, "vips/0/probes", NULL);
    rig_up_json(json);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 3000 * 16), 0x11);
    expect_answer("192.0.2.9", "2001:db8::11", client_mac);
    rig_load(rig_json("probes"));
    assert_int_equal(rig.dataplane.added, 2);
    assert_int_equal(rig.dataplane.replaced + rig.dataplane.slots_updated, 0);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 3000 * 16), 0x13);

    json = rig_json("probes");
    rig_put(json, "vips/0/probes", json_pack("{s:i,s:i}", "b1", 3000, "b2", 4095));
    rig_load(json);
    assert_int_equal(rig.dataplane.replaced, 1);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 3000 * 16), 0x11);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16), 0);
    expect_answer("192.0.2.9", "2001:db8::12", probe_mac);

    json = rig_json("probes"); /* clients' slots move, and probes do not */
    rig_put(json, "vips/0/slots", json_pack("[s,s]", "b3", "b3"));
    rig_load(json);
    rig_load(json_deep_copy(rig.program->source));
    assert_int_equal(rig.dataplane.replaced + rig.dataplane.slots_updated, 0);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16), 0x11);
    assert_int_equal(backend_of(client_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16), 0x13);
    expect_answer("192.0.2.9", "2001:db8::11", probe_mac);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void drains_clients_alone(void **state)
{
    struct fault fault = {0};
    unsigned slots;

    rig_up("probes");
    assert_true(engine_drain(&rig, "b1", &slots, &fault));
    assert_int_equal(slots, 3);
    assert_int_equal(backend_of(client_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16), 0x12);
    assert_int_equal(backend_of(probe_mac, "192.0.2.9", "198.51.100.1", 17, 2049 * 16), 0x11);
    rig_down();
}

static json_t *with(const char *path, json_t *value)
{
    json_t *json = rig_json("probes");

    rig_put(json, path, value);
    return json;
}

static void refuses_wrong_programs(void **state)
{
    rig_up("probes");
    rig_refuse(with("probe", NULL), "$.vips[0].probes: found");
    rig_refuse(with("probe/ipv4", NULL), "$.probe.ipv4: found none");
    rig_refuse(with("vips/1/probes/b9", json_integer(2050)), "$.vips[1].probes: found \"b9\"");
    rig_refuse(with("vips/1/probes/b3", json_integer(4096)), "$.vips[1].probes[\"b3\"]: found 4096");
    rig_refuse(with("vips/1/probes/b3", json_integer(2049)), "a number from 0 to 4095 that no other backend");
    rig_refuse(with("vips/1/probes", json_object()), "$.vips[1].probes");
    rig_refuse(with("vips/3/probes", NULL), "$.vips[3].slots: found 0 slots");
    rig_refuse(with("vips/1/select", json_string("probes")), "$.vips[1].select");
    rig_refuse(with("vips/3/address", json_string("2001:db8:1::1")), "$.vips[3]: found the address, protocol and port of vip");
    rig_refuse(with("budgets/slots", json_integer(16)), "$.budgets.slots: found 16, expected 17 or more");
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_name_backends),
        cmocka_unit_test(clients_choose_no_backend),
        cmocka_unit_test(counts_clients_alone),
        cmocka_unit_test(translates_answers_to_probes),
        cmocka_unit_test(follows_loads),
        cmocka_unit_test(drains_clients_alone),
        cmocka_unit_test(refuses_wrong_programs),
    };

    return cmocka_run_group_tests_name("ext_probes", tests, NULL, NULL);
}
