/* SPDX-License-Identifier: Apache-2.0 */
/* BASIC pipes: matches, rewriting, forwards, misses. */
#include "testbed.h"

static void rewrites_the_destination_mac(void **state)
{
    struct doca_flow_match match = {0};
    struct doca_flow_actions actions = {0}, *templates[] = {&actions};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame in, expected;

    testbed_up("vnf,hws", 2);
    assert_doca_ok(doca_flow_port_pair(testbed_port[0], testbed_port[1]));
    cfg = testbed_cfg(0, "mac", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.dst_ip = UINT32_MAX;
    memset(actions.outer.eth.dst_mac, 0xff, 6);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    pipe = testbed_create(cfg, &fwd, NULL);
    match.outer.ip4.dst_ip = DOCA_HTOBE32(0xc0000235); /* 192.0.2.53 */
    memcpy(actions.outer.eth.dst_mac, "\x02\xaa\xbb\xcc\xdd\xee", 6);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, &actions, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);

    frame_packet(&in, "198.51.100.7", "192.0.2.53", 17, 40001, 53);
    expected = in;
    memcpy(expected.bytes, "\x02\xaa\xbb\xcc\xdd\xee", 6);
    testbed_expect_frame(0, &in, 1, &expected);
    frame_packet(&in, "198.51.100.7", "192.0.2.54", 17, 40001, 53);
    testbed_expect(0, &in, DOCA_FLOW_MODEL_MISSED);
    testbed_expect(1, &in, DOCA_FLOW_MODEL_MISSED);
    testbed_down();
}

/* Each call pairs both ways, and a port that stops is nobody's pair any more. */
static void stops_ports_that_were_paired_anew(void **state)
{
    testbed_up("vnf,hws", 3);
    assert_doca_ok(doca_flow_port_pair(testbed_port[2], testbed_port[1]));
    assert_doca_ok(doca_flow_port_pair(testbed_port[2], testbed_port[0]));
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewrites_the_destination_mac),
        cmocka_unit_test(stops_ports_that_were_paired_anew),
    };

    return cmocka_run_group_tests_name("basic", tests, NULL, NULL);
}
