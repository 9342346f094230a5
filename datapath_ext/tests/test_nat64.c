/* SPDX-License-Identifier: Apache-2.0 */
/* NAT64 in ordered lists and in actions: the published packet, the way back, and what nobody has said. */
#include "testbed.h"

/* A list pipe {ACTIONS src 192.168/16, counter, NAT64, counter} behind a root pipe, as in the public program. */
static struct doca_flow_pipe_entry *list_pipe(enum doca_flow_l3_type original, bool rewrite)
{
    struct doca_flow_monitor counter = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_nat64_action nat64 = {.original_l3_type = original}, zero = {0};
    struct doca_flow_actions actions = {0}, mask = {0};
    struct doca_flow_ordered_list_element elements[] = {
        {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_ACTIONS, .actions = &actions, .actions_mask = &mask},
        {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_MONITOR, .monitor = &counter},
        {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64, .nat64 = &nat64},
        {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_MONITOR, .monitor = &counter},
    };
    struct doca_flow_ordered_list list = {.idx = 0, .size = 4, .elements = elements}, *lists[] = {&list};
    struct doca_flow_fwd fwd = to_port(1), next = {.type = DOCA_FLOW_FWD_ORDERED_LIST_PIPE};
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, "list", DOCA_FLOW_PIPE_ORDERED_LIST, false);
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *pipe;

    if (rewrite) {
        actions.outer.l3_type = mask.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
        actions.outer.ip4.src_ip = DOCA_HTOBE32(0xc0a80000);
        mask.outer.ip4.src_ip = DOCA_HTOBE32(0xffff0000);
    }
    assert_doca_ok(doca_flow_pipe_cfg_set_ordered_lists(cfg, lists, 1));
    pipe = testbed_create(cfg, &fwd, NULL);
    memset(&actions, 0, sizeof(actions));
    elements[2].nat64 = &zero; /* the pipe's value counts */
    assert_doca_ok(doca_flow_pipe_ordered_list_add_entry(0, pipe, 0, &list, NULL, 0, NULL, &entry));
    next.ordered_list_pipe.pipe = pipe;
    next.ordered_list_pipe.idx = 0;
    (void)testbed_all(0, &next);
    return entry;
}

static void translates_the_published_packet(void **state)
{
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_resource_query query[2];
    struct frame in, expected;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_strict(true);
    entry = list_pipe(DOCA_FLOW_L3_TYPE_IP4, true);
    frame_start(&in);
    frame_eth(&in, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x0800);
    frame_ip(&in, (struct ip){.src = "2.2.2.2", .dst = "8.8.8.8", .proto = 6, .id = 1, .ttl = 55});
    frame_tcp(&in, 1234, 80);
    frame_text(&in, "sent to port 0");
    frame_finish(&in);
    frame_start(&expected);
    frame_eth(&expected, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x86dd);
    frame_ip(&expected, (struct ip){.src = "64:ff9b::c0a8:202", .dst = "64:ff9b::808:808", .proto = 6});
    frame_tcp(&expected, 1234, 80);
    frame_text(&expected, "sent to port 0");
    frame_finish(&expected);
    testbed_expect_frame(0, &in, 1, &expected);

    /* One result per counter of the list, in its order: before and after the translation. */
    assert_doca_ok(doca_flow_resource_query_entry(entry, query));
    assert_int_equal(query[0].counter.total_bytes, in.length);
    assert_int_equal(query[1].counter.total_bytes, in.length + 20);
    testbed_down();
}

static void translates_to_ip4(void **state)
{
    struct frame in, expected;

    testbed_up("vnf,hws", 2);
    (void)list_pipe(DOCA_FLOW_L3_TYPE_IP6, false);
    frame_start(&in);
    frame_eth(&in, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x86dd);
    frame_ip(&in, (struct ip){.src = "64:ff9b::c000:201", .dst = "2001:db8::1234:c000:202", .proto = 17, .ttl = 9,
                              .label = 0x12345});
    frame_udp(&in, 5353, 53);
    frame_text(&in, "odd");
    frame_finish(&in);
    frame_start(&expected);
    frame_eth(&expected, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x0800);
    frame_ip(&expected, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 17});
    frame_udp(&expected, 5353, 53);
    frame_text(&expected, "odd");
    frame_finish(&expected);
    testbed_expect_frame(0, &in, 1, &expected);
    testbed_down();
}

static void fragment(struct frame *frame)
{
    frame_start(frame);
    frame_eth(frame, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x0800);
    frame_ip(frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 17, .fragment = 0x2000});
    frame_udp(frame, 1, 53);
    frame_text(frame, "the rest comes later....");
    frame_finish(frame);
}

static void drops_what_is_unproven(void **state)
{
    static const uint8_t options[4] = {1, 1, 1, 0};
    struct frame frame;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_strict(true);
    (void)list_pipe(DOCA_FLOW_L3_TYPE_IP4, false);
    fragment(&frame);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_UNPROVEN);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 53);
    frame.bytes[14 + 20 + 6] = frame.bytes[14 + 20 + 7] = 0;
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_UNPROVEN);
    frame_start(&frame);
    frame_eth(&frame, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 1});
    frame_icmp(&frame, 8, 0, 1);
    frame_finish(&frame);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_UNPROVEN);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 17, 1, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_UNPROVEN);

    /* What is merely doubtful goes through otherwise; what cannot be translated does not. */
    doca_flow_model_set_strict(false);
    fragment(&frame);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_start(&frame);
    frame_eth(&frame, "00:00:00:00:00:01", "00:00:00:00:00:02", 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 17, .options = options,
                                 .options_length = 4});
    frame_udp(&frame, 1, 53);
    frame_finish(&frame);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_UNPROVEN);
    testbed_down();
}

/* Three scratch words are the hardware's own: they hold something else afterwards. */
static void clobbers_scratch_words(void **state)
{
    struct doca_flow_match all = {0}, match = {0}, mask = {0};
    struct doca_flow_actions set = {0}, nat64 = {0}, *sets[] = {&set}, *nat64s[] = {&nat64};
    struct doca_flow_fwd fwd = to_port(1), next, drop = to_drop();
    struct doca_flow_pipe *pipe;
    struct doca_flow_pipe_cfg *cfg;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    for (unsigned word = 0; word < 5; word++) {
        cfg = testbed_cfg(0, "check", DOCA_FLOW_PIPE_BASIC, false);
        memset(&mask, 0, sizeof(mask));
        memset(&match, 0, sizeof(match));
        mask.meta.u32[word] = UINT32_MAX;
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
        pipe = testbed_create(cfg, &fwd, &drop);
        match.meta.u32[word] = 42;
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, NULL, 0, NULL, NULL));
        next = to_pipe(pipe);

        cfg = testbed_cfg(0, "nat64", DOCA_FLOW_PIPE_BASIC, false);
        nat64.nat64.original_l3_type = DOCA_FLOW_L3_TYPE_IP4;
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, nat64s, NULL, NULL, 1));
        pipe = testbed_create(cfg, &next, NULL);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL));
        next = to_pipe(pipe);

        cfg = testbed_cfg(0, "set", DOCA_FLOW_PIPE_BASIC, true);
        set.meta.u32[word] = 42;
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, sets, NULL, NULL, 1));
        pipe = testbed_create(cfg, &next, NULL);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL));
        testbed_process(0);
        frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 53);
        testbed_expect(0, &frame, word < 3 ? DOCA_FLOW_MODEL_DROPPED : DOCA_FLOW_MODEL_SENT);
        doca_flow_port_pipes_flush(testbed_port[0]);
    }
    testbed_down();
}

static void refuses_nat64_in_a_root_pipe(void **state)
{
    struct doca_flow_match all = {0};
    struct doca_flow_actions nat64 = {.nat64 = {.original_l3_type = DOCA_FLOW_L3_TYPE_IP4}}, *list[] = {&nat64};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "root", DOCA_FLOW_PIPE_BASIC, true);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, list, NULL, NULL, 1));
    assert_doca_refused(doca_flow_pipe_create(cfg, &fwd, NULL, &pipe), DOCA_ERROR_NOT_SUPPORTED, "NAT64 in root pipe");
    assert_doca_ok(doca_flow_pipe_cfg_set_is_root(cfg, false));
    doca_flow_model_set_strict(true);
    assert_doca_refused(doca_flow_pipe_create(cfg, &fwd, NULL, &pipe), DOCA_ERROR_NOT_SUPPORTED, "unproven: actions.nat64");
    assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(translates_the_published_packet),
        cmocka_unit_test(translates_to_ip4),
        cmocka_unit_test(drops_what_is_unproven),
        cmocka_unit_test(clobbers_scratch_words),
        cmocka_unit_test(refuses_nat64_in_a_root_pipe),
    };

    return cmocka_run_group_tests_name("nat64", tests, NULL, NULL);
}
