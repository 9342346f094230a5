/* SPDX-License-Identifier: Apache-2.0 */
/* IPv4 clients, IPv6-only backends: there and back. */
#include "rig.h"

static void expect(uint16_t port, const struct frame *in, const struct frame *expected)
{
    struct doca_flow_model_result result = rig_send(port, in, DOCA_FLOW_MODEL_SENT);

    assert_int_equal(result.outputs[0].length, expected->length);
    assert_true(memcmp(result.outputs[0].frame, expected->bytes, expected->length) == 0);
    doca_flow_model_result_free(&result);
}

static void build(struct frame *frame, const char *src_mac, const char *dst_mac, struct ip ip, uint16_t src_port,
                  uint16_t dst_port)
{
    frame_start(frame);
    frame_eth(frame, src_mac, dst_mac, strchr(ip.src, ':') != NULL ? 0x86dd : 0x0800);
    frame_ip(frame, ip);
    if (ip.proto == 17)
        frame_udp(frame, src_port, dst_port);
    else
        frame_tcp(frame, src_port, dst_port);
    frame_text(frame, "a question, or its answer");
    frame_finish(frame);
}

static void translates_there_and_back(void **state)
{
    static const uint8_t protocols[] = {17, 6};
    struct frame in, out;

    rig_up("siit");
    for (unsigned i = 0; i < 2; i++)
        for (uint16_t port = 1000; port < 1016; port++) {
            bool second = (port >> 1) % 2 == 1;
            const char *backend = second ? "2001:db8::12" : "2001:db8::11";

            build(&in, "02:00:00:00:00:99", "02:00:00:00:00:98",
                  (struct ip){.src = "203.0.113.7", .dst = "198.51.100.1", .proto = protocols[i]}, port, 53);
            build(&out, "02:00:00:00:00:99", second ? "02:00:00:00:00:12" : "02:00:00:00:00:11",
                  (struct ip){.src = "64:ff9b::203.0.113.7", .dst = backend, .proto = protocols[i]}, port, 53);
            expect(PORT_IN, &in, &out);

            build(&in, "02:00:00:00:00:11", "02:00:00:00:00:98",
                  (struct ip){.src = backend, .dst = "64:ff9b::203.0.113.7", .proto = protocols[i]}, 53, port);
            build(&out, "02:00:00:00:00:11", "02:00:00:00:00:98",
                  (struct ip){.src = "198.51.100.1", .dst = "203.0.113.7", .proto = protocols[i]}, 53, port);
            expect(PORT_OUT, &in, &out);
        }
    assert_int_equal(rig_counter("vips/0/backends/b1/packets"), 8);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void drops_other_answers(void **state)
{
    struct frame frame;

    rig_up("siit");
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "2001:db8::203", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED); /* not to a translated client */
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::1", .src_port = 54, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED); /* not from the service */
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::13", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED); /* not from a backend */
    assert_int_equal(rig_counter("dropped/out/other"), 3);
    rig_down();
}

static void moves_backends(void **state)
{
    json_t *json = rig_json("siit");
    struct doca_flow_model_result result;
    struct frame frame;

    rig_up("siit");
    rig_put(json, "backends/0/address", json_string("2001:db8::15"));
    rig_load(json);
    assert_int_equal(rig.dataplane.targets_updated, 1); /* of both VIPs */
    assert_int_equal(rig.dataplane.slots_updated, 0);
    rig_frame(&frame, (struct rig_packet){.src = "203.0.113.7", .dst = "198.51.100.1"});
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[53], 0x15);
    doca_flow_model_result_free(&result);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::15", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED);

    /* To slots chosen in another way, and to MAC addresses: built beside and swapped. */
    json = rig_json("siit");
    rig_put(json, "vips/0/select", json_string("spray"));
    rig_load(json);
    assert_int_equal(rig.dataplane.replaced, 1);
    rig_frame(&frame, (struct rig_packet){.src = "203.0.113.7", .dst = "198.51.100.1"});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    json = rig_json("siit");
    rig_put(json, "vips/0/forward", json_string("l2"));
    rig_load(json);
    (void)rig_backend_unchanged((struct rig_packet){.src = "203.0.113.7", .dst = "198.51.100.1"});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* What a backend was asked before it was drained, it still answers; when it is another VIP's, its answers are that one's. */
static void lets_late_answers_in(void **state)
{
    json_t *json = rig_json("siit"), *taken = rig_json("siit");
    struct doca_flow_model_result result;
    struct fault fault = {0};
    struct frame frame;
    unsigned slots;

    rig_up("siit");
    assert_true(engine_drain(&rig, "b2", &slots, &fault));
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::12", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);

    for (unsigned i = 0; i < 8; i++) {
        char path[32];

        (void)snprintf(path, sizeof(path), "vips/0/slots/%u", i);
        rig_put(taken, path, json_string("b1"));
    }
    rig_put(taken, "vips/2", json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:[s],s:s}", "name", "other", "family", "ipv4", "address",
                                       "198.51.100.2", "protocol", "udp", "port", 53, "select", "spray", "slots", "b2",
                                       "forward", "siit"));
    rig_load(taken);
    result = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[29], 2); /* 198.51.100.2 */
    doca_flow_model_result_free(&result);

    rig_load(json_deep_copy(json));
    rig_put(json, "backends/1", NULL);
    rig_put(json, "vips/1", NULL);
    rig_put(json, "vips/0/slots", json_pack("[s]", "b1"));
    rig_load(json);
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

/* One VIP with one slot, which is backend `number`'s, and room for little more. */
static json_t *wandering(unsigned number)
{
    json_t *json = rig_json("siit"), *backends = json_array();
    char name[16], mac[32], address[32];

    for (unsigned i = 0; i < 12; i++) {
        (void)snprintf(name, sizeof(name), "w%u", i);
        (void)snprintf(mac, sizeof(mac), "02:00:00:00:00:%02x", 0x20 + i);
        (void)snprintf(address, sizeof(address), "2001:db8::%x", 0x20 + i);
        assert_int_equal(json_array_append_new(backends, json_pack("{s:s,s:s,s:s}", "name", name, "mac", mac, "address",
                                                                   address)), 0);
    }
    (void)snprintf(name, sizeof(name), "w%u", number);
    rig_put(json, "backends", backends);
    rig_put(json, "budgets", json_pack("{s:i,s:i,s:i,s:i}", "vips", 1, "slots", 2, "backends", 2, "counters", 20));
    rig_put(json, "vips", json_pack("[O]", rig_at(json, "vips/0")));
    rig_put(json, "vips/0/slots", json_pack("[s]", name));
    return json;
}

/* A slot that wanders over more backends than there is room for: the answers of those that had it long ago go. */
static void wanders_over_many_backends(void **state)
{
    enum { BACKENDS = 12 };

    rig_up_json(wandering(0));
    for (unsigned i = 1; i < BACKENDS; i++) {
        char src[32];
        struct frame frame;

        rig_load(wandering(i));
        for (unsigned late = 0; late < 2; late++) { /* the backend that has the slot, and the one that had it */
            (void)snprintf(src, sizeof(src), "2001:db8::%x", 0x20 + i - late);
            rig_frame(&frame, (struct rig_packet){.src = src, .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
            rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
        }
        rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1"});
        rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    }
    assert_true(rig.dataplane.answer_count <= rig.dataplane.answers_most);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(translates_there_and_back),
        cmocka_unit_test(drops_other_answers),
        cmocka_unit_test(moves_backends),
        cmocka_unit_test(lets_late_answers_in),
        cmocka_unit_test(wanders_over_many_backends),
    };

    return cmocka_run_group_tests_name("ext_siit", tests, NULL, NULL);
}
