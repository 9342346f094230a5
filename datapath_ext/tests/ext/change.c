/* SPDX-License-Identifier: Apache-2.0 */
#include "change.h"

#include "rig.h"

/* Two VIPs that stay, and of the rest a bit of everything. */
json_t *change_before(void)
{
    json_t *json = rig_json("siit");

    rig_put(json, "tunnel", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:01", "ipv6", "2001:db8::1"));
    rig_put(json, "probe", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:03", "ipv4", "192.0.2.9"));
    rig_put(json, "vips/0/probes", json_pack("{s:i,s:i}", "b1", 2049, "b2", 3000));
    rig_put(json, "vips/1/forward", json_string("l2"));
    rig_put(json, "vips/2", json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:[ssss],s:s}", "name", "gone", "family", "ipv6",
                                      "address", "2001:db8:1::1", "protocol", "udp", "port", 53, "select", "spray",
                                      "slots", "b1", "b2", "b1", "b2", "forward", "l2"));
    return json;
}

/* Slots and addresses changed in place, a VIP swapped, one removed, one added that needs tunnels. */
json_t *change_after(void)
{
    json_t *json = change_before();

    rig_put(json, "backends/0/mac", json_string("02:00:00:00:00:22"));
    rig_put(json, "backends/2", json_pack("{s:s,s:s,s:s}", "name", "b3", "mac", "02:00:00:00:00:13", "address",
                                          "2001:db8::13"));
    rig_put(json, "vips/0/probes/b3", json_integer(4000));
    rig_put(json, "vips/1/probes", json_pack("{s:i}", "b3", 4000));
    rig_put(json, "vips/0/slots/1", json_string("b1"));
    rig_put(json, "vips/0/slots/2", json_string("b3"));
    rig_put(json, "vips/1/select", json_string("client"));
    rig_put(json, "vips/1/hash_fields", json_pack("[s]", "src_ip"));
    rig_put(json, "vips/2/name", json_string("new"));
    rig_put(json, "vips/2/port", json_integer(54));
    rig_put(json, "vips/2/forward", json_string("ipip"));
    return json;
}

static unsigned backend(const char *dst, uint8_t protocol, uint16_t src_port)
{
    return rig_backend((struct rig_packet){.src = strchr(dst, ':') ? "2001:db8::9" : "192.0.2.9", .dst = dst,
                                           .protocol = protocol, .src_port = src_port});
}

static unsigned probed(unsigned number)
{
    static const uint8_t mac[6] = {0x02, 0, 0, 0, 0, 0x03};
    struct doca_flow_model_result result;
    struct frame frame;
    unsigned found;

    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)(number << 4)});
    memcpy(frame.bytes, mac, sizeof(mac));
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    found = result.outputs[0].frame[5];
    doca_flow_model_result_free(&result);
    return found;
}

static void expect_answer(const char *src, enum doca_flow_model_verdict verdict)
{
    struct frame frame;

    rig_frame(&frame, (struct rig_packet){.src = src, .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, verdict);
}

void change_check_before(void)
{
    struct frame frame;

    assert_int_equal(backend("198.51.100.1", 17, 0), 0x11);
    assert_int_equal(backend("198.51.100.1", 17, 2), 0x12);
    assert_int_equal(backend("198.51.100.1", 6, 0), 0x11);
    assert_int_equal(backend("198.51.100.1", 6, 2), 0x12);
    (void)backend("2001:db8:1::1", 17, 1);
    assert_int_equal(probed(2049), 0x11);
    assert_int_equal(probed(3000), 0x12);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .dst_port = 54});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    expect_answer("2001:db8::11", DOCA_FLOW_MODEL_SENT);
    expect_answer("2001:db8::13", DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(rig_missed(), 0);
}

void change_check_after(void)
{
    struct frame frame;

    assert_int_equal(backend("198.51.100.1", 17, 0), 0x22);
    assert_int_equal(backend("198.51.100.1", 17, 2), 0x22);
    assert_int_equal(backend("198.51.100.1", 17, 4), 0x13);
    assert_int_equal(probed(2049), 0x22);
    assert_int_equal(probed(4000), 0x13);
    expect_answer("2001:db8::11", DOCA_FLOW_MODEL_SENT);
    expect_answer("2001:db8::13", DOCA_FLOW_MODEL_SENT);
    assert_int_equal(backend("198.51.100.1", 6, 0), backend("198.51.100.1", 6, 2));
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1"});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .dst_port = 54});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(rig_missed(), 0);
}

bool change_load(json_t *json)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);
    bool done;

    assert_true(program != NULL);
    json_decref(json);
    done = engine_load(&rig, program, &fault);
    assert_true(done == (fault.text[0] == '\0'));
    return done;
}
