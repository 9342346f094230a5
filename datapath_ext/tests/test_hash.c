/* SPDX-License-Identifier: Apache-2.0 */
/* HASH pipes: the published vectors of the function, slots, the random key, flooding. */
#include "testbed.h"

static struct doca_flow_pipe *hash_pipe(unsigned port, bool root, uint32_t entries,
                                        const struct doca_flow_match *mask, const struct doca_flow_fwd *fwd)
{
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(port, "hash", DOCA_FLOW_PIPE_HASH, root);

    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, entries));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, mask));
    return testbed_create(cfg, fwd, NULL);
}

static void add_ports(struct doca_flow_pipe *pipe, uint32_t entries)
{
    for (uint32_t i = 0; i < entries; i++) {
        struct doca_flow_fwd fwd = to_port((uint16_t)(i + 1));

        assert_doca_ok(doca_flow_pipe_hash_add_entry(0, pipe, i, 0, NULL, NULL, &fwd, 0, NULL, NULL));
    }
    testbed_process(0);
}

static const struct doca_flow_match ip4_dst = {
    .outer = {.l3_type = DOCA_FLOW_L3_TYPE_IP4, .ip4 = {.dst_ip = UINT32_MAX}},
};

static const struct doca_flow_match label = {
    .outer = {.l3_type = DOCA_FLOW_L3_TYPE_IP6, .ip6 = {.flow_label = DOCA_HTOBE32(0xfffff)}},
};

static void calculates_the_known_hashes_of_addresses(void **state)
{
    static const uint32_t known[][2] = {
        {0x08080808, 0x5775c014}, {0x08080809, 0x1461bb03}, {0xc0a80101, 0x60fca3e3}, {0x0a000001, 0x22fc4cfd},
        {0x0a000002, 0xe7c0c1c4}, {0x0a000003, 0xa4d4bad3}, {0x0a000004, 0x6db9dbb7},
    };
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe *pipe;

    testbed_up("switch,hws", 2);
    doca_flow_model_set_strict(true);
    pipe = hash_pipe(0, false, 2, &ip4_dst, &fwd);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct doca_flow_match match = ip4_dst;
        uint32_t hash;

        match.outer.ip4.dst_ip = DOCA_HTOBE32(known[i][0]);
        assert_doca_ok(doca_flow_pipe_calc_hash(pipe, &match, &hash));
        assert_int_equal(hash, known[i][1]);
    }
    testbed_down();
}

static void calculates_the_known_hashes_of_flow_labels(void **state)
{
    static const uint32_t known[][2] = {
        {0x00001, 0x43147b17}, {0x55555, 0x77e5af16}, {0xaaaaa, 0xeeca5f2d}, {0xffffe, 0xda3b8b2c}};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe *pipe;

    testbed_up("switch,hws", 2);
    pipe = hash_pipe(0, false, 4, &label, &fwd);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct doca_flow_match match = label;
        uint32_t hash;

        match.outer.ip6.flow_label = DOCA_HTOBE32(known[i][0]);
        assert_doca_ok(doca_flow_pipe_calc_hash(pipe, &match, &hash));
        assert_int_equal(hash, known[i][1]);
    }
    testbed_down();
}

static void spreads_addresses_as_published(void **state)
{
    struct doca_flow_fwd fwd = to_port(UINT16_MAX);
    struct frame frame;

    testbed_up("switch,hws", 3);
    add_ports(hash_pipe(0, true, 2, &ip4_dst, &fwd), 2);
    frame_packet(&frame, "127.0.0.1", "8.8.8.8", 17, 1, 2);
    testbed_expect_frame(0, &frame, 1, &frame);
    frame_packet(&frame, "127.0.0.1", "8.8.8.9", 17, 1, 2);
    testbed_expect_frame(0, &frame, 2, &frame);
    testbed_down();
}

static void spreads_flow_labels_as_published(void **state)
{
    static const struct {
        uint32_t label;
        unsigned port;
    } known[] = {{0x00001, 4}, {0x55555, 3}, {0xaaaaa, 2}, {0xffffe, 1}};
    struct doca_flow_fwd fwd = to_port(UINT16_MAX), to_hash;
    struct doca_flow_pipe *pipe;

    testbed_up("switch,hws", 5);
    pipe = hash_pipe(0, false, 4, &label, &fwd);
    add_ports(pipe, 4);
    to_hash = to_pipe(pipe);
    (void)testbed_all(0, &to_hash);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct frame frame;

        frame_start(&frame);
        frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
        frame_ip(&frame, (struct ip){.src = "::1", .dst = "::1", .proto = 6, .label = known[i].label});
        frame_tcp(&frame, 20, 80);
        frame_finish(&frame);
        testbed_expect_frame(0, &frame, known[i].port, &frame);
    }
    testbed_down();
}

static void sprays_packets_by_the_random_key(void **state)
{
    struct doca_flow_match mask = {.parser_meta = {.random = DOCA_HTOBE16(0xffff)}};
    struct doca_flow_fwd fwd = to_port(UINT16_MAX), to_hash;
    unsigned found[TESTBED_PORTS] = {0};
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("switch,hws", 5);
    pipe = hash_pipe(0, false, 4, &mask, &fwd);
    add_ports(pipe, 4);
    to_hash = to_pipe(pipe);
    (void)testbed_all(0, &to_hash);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    for (unsigned i = 0; i < 400; i++) {
        struct doca_flow_model_result result = testbed_send(0, &frame, DOCA_FLOW_MODEL_SENT);

        found[result.outputs[0].port_id]++;
        doca_flow_model_result_free(&result);
    }
    for (unsigned port = 1; port <= 4; port++)
        assert_true(found[port] > 60 && found[port] < 140); /* 100 on average, 5 standard deviations are 43 */
    testbed_down();
}

static void floods_to_every_entry(void **state)
{
    struct doca_flow_fwd fwd = to_port(UINT16_MAX);
    struct doca_flow_model_result result;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;
    unsigned seen = 0;

    testbed_up("switch,hws", 4);
    cfg = testbed_cfg(0, "flood", DOCA_FLOW_PIPE_HASH, true);
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 3));
    assert_doca_ok(doca_flow_pipe_cfg_set_hash_map_algorithm(cfg, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING));
    pipe = testbed_create(cfg, &fwd, NULL);
    add_ports(pipe, 3);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    assert_doca_ok(doca_flow_model_receive(0, frame.bytes, frame.length, &result));
    assert_int_equal(result.count, 3);
    for (size_t i = 0; i < result.count; i++) {
        assert_int_equal(result.outputs[i].verdict, DOCA_FLOW_MODEL_SENT);
        seen |= 1U << result.outputs[i].port_id;
    }
    assert_int_equal(seen, 0xe);
    doca_flow_model_result_free(&result);
    testbed_down();
}

static void misses_an_empty_slot(void **state)
{
    struct doca_flow_fwd fwd = to_port(UINT16_MAX), one = to_port(1);
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("switch,hws", 3);
    pipe = hash_pipe(0, true, 2, &ip4_dst, &fwd);
    assert_doca_ok(doca_flow_pipe_hash_add_entry(0, pipe, 0, 0, NULL, NULL, &one, 0, NULL, NULL));
    testbed_process(0);
    frame_packet(&frame, "127.0.0.1", "8.8.8.9", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    assert_doca_refused(doca_flow_pipe_hash_add_entry(0, pipe, 0, 0, NULL, NULL, &one, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "index 0");
    assert_doca_refused(doca_flow_pipe_hash_add_entry(0, pipe, 2, 0, NULL, NULL, &one, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "index 2");
    testbed_down();
}

/* Classifier -> slots that write their number -> backends that are updated in place. */
static void replaces_a_backend_without_touching_slots(void **state)
{
    struct doca_flow_match match = {0}, mask = {0}, key = {.parser_meta = {.random = UINT16_MAX}};
    struct doca_flow_actions slot = {0}, mac = {0}, *slots[] = {&slot}, *macs[] = {&mac};
    struct doca_flow_fwd open = to_port(UINT16_MAX), next, drop = to_drop();
    struct doca_flow_pipe_entry *backend[2];
    struct doca_flow_pipe *backends, *hash;
    struct doca_flow_pipe_cfg *cfg;
    struct frame frame;

    testbed_up("switch,hws", 4);
    cfg = testbed_cfg(0, "backends", DOCA_FLOW_PIPE_BASIC, false);
    mask.meta.u32[0] = UINT32_MAX;
    memset(mac.outer.eth.dst_mac, 0xff, 6);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, macs, NULL, NULL, 1));
    backends = testbed_create(cfg, &open, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct doca_flow_fwd fwd = to_port((uint16_t)(i + 1));

        match.meta.u32[0] = DOCA_HTOBE32(i);
        mac.outer.eth.dst_mac[5] = (uint8_t)(0x10 + i);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, backends, &match, 0, &mac, NULL, &fwd, 0, NULL, &backend[i]));
    }
    cfg = testbed_cfg(0, "slots", DOCA_FLOW_PIPE_HASH, false);
    slot.meta.u32[0] = UINT32_MAX;
    next = to_pipe(backends);
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, slots, NULL, NULL, 1));
    hash = testbed_create(cfg, &next, &drop);
    for (uint32_t i = 0; i < 2; i++) {
        slot.meta.u32[0] = DOCA_HTOBE32(i);
        assert_doca_ok(doca_flow_pipe_hash_add_entry(0, hash, i, 0, &slot, NULL, NULL, 0, NULL, NULL));
    }
    next = to_pipe(hash);
    (void)testbed_all(0, &next);

    next = to_port(3);
    mac.outer.eth.dst_mac[5] = 0x77;
    assert_doca_ok(doca_flow_pipe_basic_update_entry(0, backends, 0, &mac, NULL, &next, 0, backend[1]));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    for (unsigned i = 0; i < 50; i++) {
        struct doca_flow_model_result result = testbed_send(0, &frame, DOCA_FLOW_MODEL_SENT);

        assert_true(result.outputs[0].port_id != 2);
        assert_int_equal(result.outputs[0].frame[5], result.outputs[0].port_id == 1 ? 0x10 : 0x77);
        doca_flow_model_result_free(&result);
    }
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(calculates_the_known_hashes_of_addresses),
        cmocka_unit_test(calculates_the_known_hashes_of_flow_labels),
        cmocka_unit_test(spreads_addresses_as_published),
        cmocka_unit_test(spreads_flow_labels_as_published),
        cmocka_unit_test(sprays_packets_by_the_random_key),
        cmocka_unit_test(floods_to_every_entry),
        cmocka_unit_test(misses_an_empty_slot),
        cmocka_unit_test(replaces_a_backend_without_touching_slots),
    };

    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
