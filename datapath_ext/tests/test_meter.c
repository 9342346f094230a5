/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: colours, who drops what is red, shared counters. */
#include "testbed.h"

static void a_meter_of_its_own_drops_red(void **state)
{
    struct doca_flow_match all = {0};
    struct doca_flow_monitor monitor = {.meter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_clock(0);
    cfg = testbed_cfg(0, "meter", DOCA_FLOW_PIPE_BASIC, true);
    monitor.non_shared_meter.limit_type = DOCA_FLOW_METER_LIMIT_TYPE_PACKETS;
    monitor.non_shared_meter.cir = monitor.non_shared_meter.cbs = UINT64_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, &monitor));
    pipe = testbed_create(cfg, &fwd, NULL);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "no meter rate");
    monitor.non_shared_meter.cir = 10;
    monitor.non_shared_meter.cbs = 3;
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, &monitor, NULL, 0, NULL, NULL));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    for (unsigned i = 0; i < 3; i++)
        testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_DROPPED);
    doca_flow_model_set_clock(100000000); /* a tenth of a second: one packet */
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_DROPPED);
    doca_flow_model_set_clock(UINT64_MAX);
    testbed_down();
}

/* As in public programs: a shared meter colours, a control pipe decides by the colour. */
static void a_shared_meter_only_colours(void **state)
{
    struct doca_flow_match all = {0}, match = {0}, mask = {0};
    struct doca_flow_shared_resource_cfg meter = {0};
    struct doca_flow_monitor monitor = {.meter_type = DOCA_FLOW_RESOURCE_TYPE_SHARED};
    struct doca_flow_fwd fwd = to_port(1), kernel = {.type = DOCA_FLOW_FWD_TARGET}, next;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;
    uint32_t id;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_clock(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    assert_doca_ok(doca_flow_port_shared_resource_get(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_METER, &id));
    meter.meter_cfg.alg = DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2698;
    assert_doca_refused(doca_flow_port_shared_resource_set_cfg(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_METER, id, &meter),
                        DOCA_ERROR_NOT_SUPPORTED, "the model has RFC 2697");
    meter.meter_cfg.alg = DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697;
    meter.meter_cfg.cir = 1024;
    meter.meter_cfg.cbs = 2 * frame.length;
    assert_doca_ok(doca_flow_port_shared_resource_set_cfg(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_METER, id, &meter));

    pipe = testbed_create(testbed_cfg(0, "colour", DOCA_FLOW_PIPE_CONTROL, false), NULL, NULL);
    *(uint8_t *)&mask.parser_meta.meter_color = 3;
    match.parser_meta.meter_color = DOCA_FLOW_METER_COLOR_GREEN;
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 0, &fwd, NULL,
                                                    NULL));
    match.parser_meta.meter_color = DOCA_FLOW_METER_COLOR_RED;
    assert_doca_ok(doca_flow_get_target(DOCA_FLOW_TARGET_KERNEL, &kernel.target));
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 0, &kernel, NULL,
                                                    NULL));
    next = to_pipe(pipe);
    cfg = testbed_cfg(0, "meter", DOCA_FLOW_PIPE_BASIC, true);
    monitor.shared_meter.shared_meter_id = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, &monitor));
    pipe = testbed_create(cfg, &next, NULL);
    monitor.shared_meter.shared_meter_id = id;
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, &monitor, NULL, 0, NULL, NULL));
    testbed_process(0);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_KERNEL);
    doca_flow_model_set_clock(UINT64_MAX);
    testbed_down();
}

static void entries_share_a_counter(void **state)
{
    struct doca_flow_match match = {0};
    struct doca_flow_shared_resource_cfg counter = {0};
    struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_SHARED};
    struct doca_flow_resource_query query;
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;
    uint32_t id;

    testbed_up("vnf,hws", 2);
    assert_doca_ok(doca_flow_port_shared_resource_get(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_COUNTER, &id));
    assert_doca_ok(doca_flow_port_shared_resource_set_cfg(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_COUNTER, id, &counter));
    cfg = testbed_cfg(0, "shared", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.dst_port = UINT16_MAX;
    monitor.shared_counter.shared_counter_id = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, &monitor));
    pipe = testbed_create(cfg, &fwd, NULL);
    for (uint16_t i = 1; i <= 2; i++) {
        match.outer.udp.l4_port.dst_port = DOCA_HTOBE16(i);
        monitor.shared_counter.shared_counter_id = id;
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, &monitor, NULL, 0, NULL, NULL));
    }
    testbed_process(0);
    for (uint16_t i = 1; i <= 2; i++) {
        frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, i);
        testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    }
    assert_doca_ok(doca_flow_port_shared_resources_query(testbed_port[0], DOCA_FLOW_SHARED_RESOURCE_COUNTER, &id, &query, 1));
    assert_int_equal(query.counter.total_pkts, 2);
    monitor.shared_counter.shared_counter_id = id + 7;
    match.outer.udp.l4_port.dst_port = DOCA_HTOBE16(9);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, &monitor, NULL, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "is not configured");
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_meter_of_its_own_drops_red),
        cmocka_unit_test(a_shared_meter_only_colours),
        cmocka_unit_test(entries_share_a_counter),
    };

    return cmocka_run_group_tests_name("meter", tests, NULL, NULL);
}
