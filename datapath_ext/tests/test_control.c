/* SPDX-License-Identifier: Apache-2.0 */
/* CONTROL pipes, descriptors, conditions, longest prefixes, access lists. */
#include "testbed.h"

static struct doca_flow_pipe *control_pipe(unsigned port, bool root)
{
    return testbed_create(testbed_cfg(port, "control", DOCA_FLOW_PIPE_CONTROL, root), NULL, NULL);
}

static void takes_the_lowest_priority_first(void **state)
{
    struct doca_flow_match match = {0}, mask = {0}, all = {0};
    struct doca_flow_fwd one = to_port(1), two = to_port(2), kernel = {.type = DOCA_FLOW_FWD_TARGET};
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("switch,hws", 3);
    pipe = control_pipe(0, true);
    assert_doca_ok(doca_flow_get_target(DOCA_FLOW_TARGET_KERNEL, &kernel.target));
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &all, &all, NULL, NULL, NULL, NULL, NULL, 7, &kernel, NULL,
                                                    NULL));
    match.parser_meta.outer_l3_type = DOCA_FLOW_L3_META_IPV4;
    mask.parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
    match.outer.l3_type = mask.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.dst_ip = DOCA_HTOBE32(0xc0000200);
    mask.outer.ip4.dst_ip = DOCA_HTOBE32(0xffffff00);
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 3, &one, NULL,
                                                    NULL));
    match.outer.ip4.dst_ip = DOCA_HTOBE32(0xc0000235);
    mask.outer.ip4.dst_ip = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 2, &two, NULL,
                                                    NULL));
    /* Control entries match at once, though they are reported by entries_process only. */
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 17, 1, 53);
    testbed_expect_frame(0, &frame, 2, &frame);
    frame_packet(&frame, "198.51.100.1", "192.0.2.54", 17, 1, 53);
    testbed_expect_frame(0, &frame, 1, &frame);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 17, 1, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_KERNEL);
    testbed_down();
}

static void compares_with_zero_under_a_mask(void **state)
{
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_fwd one = to_port(1);
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf", 2);
    pipe = control_pipe(0, true);
    mask.outer.l4_type_ext = match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    mask.outer.udp.l4_port.dst_port = UINT16_MAX; /* and port 0 it is */
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 0, &one, NULL,
                                                    NULL));
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 17, 1, 0);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 17, 1, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    /* The union's selector is no filter: TCP ports are at the same place. */
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 6, 1, 0);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_down();
}

static void compares_by_a_condition(void **state)
{
    struct doca_flow_match match = {0};
    struct doca_flow_match_condition condition = {
        .operation = DOCA_FLOW_COMPARE_LT,
        .field_op = {.a = {.field_string = "outer.ipv4.total_len"}, .width = 16},
    };
    struct doca_flow_fwd one = to_port(1);
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf", 2);
    pipe = control_pipe(0, true);
    match.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.total_len = DOCA_HTOBE16(36);
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, NULL, &condition, NULL, NULL, NULL, NULL, 0, &one,
                                                    NULL, NULL));
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 17, 1, 53); /* 20 + 8 + 7 = 35 */
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 6, 1, 53); /* 47 */
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    condition.field_op.a.field_string = "outer.ipv4.nothing";
    assert_doca_refused(doca_flow_pipe_control_add_entry(0, pipe, &match, NULL, &condition, NULL, NULL, NULL, NULL, 0, &one,
                                                         NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "no field outer.ipv4.nothing");
    testbed_down();
}

/* Runs one packet through a root pipe with these actions and descriptors. */
static struct doca_flow_model_result modify(const struct doca_flow_actions *actions, struct doca_flow_action_desc *desc,
                                            uint8_t count, const struct frame *frame)
{
    struct doca_flow_match all = {0};
    struct doca_flow_actions copy = *actions, *templates[] = {&copy};
    struct doca_flow_action_descs descs = {.nb_action_desc = count, .desc_array = desc}, *lists[] = {&descs};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, "modify", DOCA_FLOW_PIPE_BASIC, true);
    struct doca_flow_model_result result;
    struct doca_flow_pipe *pipe;

    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, lists, 1));
    pipe = testbed_create(cfg, &fwd, NULL);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, &copy, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);
    result = testbed_send(0, frame, DOCA_FLOW_MODEL_SENT);
    doca_flow_pipe_destroy(pipe);
    assert_true(frame_checksums_ok(result.outputs[0].frame, result.outputs[0].length));
    return result;
}

static struct doca_flow_action_desc copy_desc(const char *src, uint32_t src_bit, const char *dst, uint32_t dst_bit,
                                              uint32_t width)
{
    struct doca_flow_action_desc desc = {.type = DOCA_FLOW_ACTION_COPY};

    desc.field_op.src = (struct doca_flow_desc_field){src, src_bit};
    desc.field_op.dst = (struct doca_flow_desc_field){dst, dst_bit};
    desc.field_op.width = width;
    return desc;
}

static void copies_and_adds(void **state)
{
    struct doca_flow_actions actions = {0};
    struct doca_flow_action_desc desc[2];
    struct doca_flow_model_result result;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_strict(true);
    frame_packet(&frame, "192.0.2.1", "198.51.100.2", 17, 1000, 53);
    memcpy(frame.bytes + 6, "\xaa\xbb\xcc\xdd\xee\xff", 6);

    /* Offsets count from the least significant bit of the field. */
    desc[0] = copy_desc("outer.eth.src_mac", 0, "meta.data", 0, 32);
    result = modify(&actions, desc, 1, &frame);
    assert_int_equal(result.outputs[0].pkt_meta, 0xccddeeff);
    doca_flow_model_result_free(&result);
    desc[0] = copy_desc("outer.eth.src_mac", 32, "meta.data", 0, 16);
    result = modify(&actions, desc, 1, &frame);
    assert_int_equal(result.outputs[0].pkt_meta & 0xffff, 0xaabb);
    doca_flow_model_result_free(&result);
    desc[0] = copy_desc("outer.ipv4.src_ip", 0, "outer.ipv4.dst_ip", 0, 32);
    result = modify(&actions, desc, 1, &frame);
    assert_true(memcmp(result.outputs[0].frame + 30, "\xc0\0\x02\x01", 4) == 0);
    doca_flow_model_result_free(&result);

    /* Copy, then add to what was copied: address + address. */
    desc[0] = copy_desc("outer.ipv4.src_ip", 0, "meta.data", 0, 32);
    desc[1] = desc[0];
    desc[1].type = DOCA_FLOW_ACTION_ADD;
    result = modify(&actions, desc, 2, &frame);
    assert_int_equal(result.outputs[0].pkt_meta, 0x80000402);
    doca_flow_model_result_free(&result);

    /* All ones are a constant here: -1. */
    memset(desc, 0, sizeof(desc));
    desc[0].type = DOCA_FLOW_ACTION_ADD;
    desc[0].field_op.dst.field_string = "outer.ipv4.ttl";
    desc[0].field_op.width = 8;
    actions.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    actions.outer.ip4.ttl = UINT8_MAX;
    result = modify(&actions, desc, 1, &frame);
    assert_int_equal(result.outputs[0].frame[14 + 8], 63);
    doca_flow_model_result_free(&result);
    testbed_down();
}

static void rewrites_with_correct_checksums(void **state)
{
    struct doca_flow_actions actions = {0};
    struct frame frame;

    testbed_up("vnf,hws", 2);
    actions.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    actions.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_TRANSPORT;
    actions.outer.ip4.src_ip = DOCA_HTOBE32(0x0a0b0c0d);
    actions.outer.ip4.dst_ip = DOCA_HTOBE32(0x01020304);
    actions.outer.ip4.dscp_ecn = 0x28;
    actions.outer.transport.src_port = DOCA_HTOBE16(0x1111);
    for (unsigned tcp = 0; tcp < 2; tcp++) {
        struct doca_flow_model_result result;

        frame_packet(&frame, "192.0.2.1", "198.51.100.2", tcp ? 6 : 17, 1000, 53);
        result = modify(&actions, NULL, 0, &frame);
        assert_true(memcmp(result.outputs[0].frame + 26, "\x0a\x0b\x0c\x0d\x01\x02\x03\x04\x11\x11", 10) == 0);
        doca_flow_model_result_free(&result);
    }
    memset(&actions, 0, sizeof(actions));
    actions.outer.l3_type = DOCA_FLOW_L3_TYPE_IP6;
    memcpy(actions.outer.ip6.dst_ip, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\x12\x34", 16);
    actions.outer.ip6.flow_label = DOCA_HTOBE32(0xabcde);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 17, 1000, 53);
    {
        struct doca_flow_model_result result = modify(&actions, NULL, 0, &frame);

        assert_true(memcmp(result.outputs[0].frame + 14, "\x60\x0a\xbc\xde", 4) == 0);
        assert_true(memcmp(result.outputs[0].frame + 52, "\x12\x34", 2) == 0);
        doca_flow_model_result_free(&result);
    }
    testbed_down();
}

static void finds_the_longest_prefix(void **state)
{
    static const struct {
        uint32_t prefix, mask;
        uint16_t port;
    } routes[] = {{0x0a000000, 0xff000000, 1}, {0x0a010000, 0xffff0000, 2}, {0, 0, 3}, {0x0a010203, 0xffffffff, 4}};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_fwd open = to_port(UINT16_MAX), next;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("switch,hws", 5);
    cfg = testbed_cfg(0, "routes", DOCA_FLOW_PIPE_LPM, false);
    match.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.src_ip = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    pipe = testbed_create(cfg, &open, NULL);
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        struct doca_flow_fwd fwd = to_port(routes[i].port);

        match.outer.ip4.src_ip = DOCA_HTOBE32(routes[i].prefix);
        mask.outer.ip4.src_ip = DOCA_HTOBE32(routes[i].mask);
        assert_doca_ok(doca_flow_pipe_lpm_add_entry(0, pipe, &match, &mask, 0, NULL, NULL, &fwd, 0, NULL, NULL));
    }
    next = to_pipe(pipe);
    (void)testbed_all(0, &next);
    frame_packet(&frame, "10.9.9.9", "192.0.2.1", 17, 1, 2);
    testbed_expect_frame(0, &frame, 1, &frame);
    frame_packet(&frame, "10.1.9.9", "192.0.2.1", 17, 1, 2);
    testbed_expect_frame(0, &frame, 2, &frame);
    frame_packet(&frame, "10.1.2.3", "192.0.2.1", 17, 1, 2);
    testbed_expect_frame(0, &frame, 4, &frame);
    frame_packet(&frame, "192.0.2.9", "192.0.2.1", 17, 1, 2);
    testbed_expect_frame(0, &frame, 3, &frame);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_lowest_priority_first),
        cmocka_unit_test(compares_with_zero_under_a_mask),
        cmocka_unit_test(compares_by_a_condition),
        cmocka_unit_test(copies_and_adds),
        cmocka_unit_test(rewrites_with_correct_checksums),
        cmocka_unit_test(finds_the_longest_prefix),
    };

    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
