/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused always, what only when strict, and what matches mean. */
#include "testbed.h"

static doca_error_t try_create(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                               const struct doca_flow_fwd *miss)
{
    struct doca_flow_pipe *pipe;
    doca_error_t result = doca_flow_pipe_create(cfg, fwd, miss, &pipe);

    assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    return result;
}

static void refuses_what_cannot_be(void **state)
{
    struct doca_flow_fwd fwd = to_port(1), bad = to_port(1), rss = {.type = DOCA_FLOW_FWD_RSS};
    struct doca_flow_fwd shared = {.type = DOCA_FLOW_FWD_RSS, .rss_type = DOCA_FLOW_RESOURCE_TYPE_SHARED};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_port_cfg *port;

    testbed_up("vnf,hws", 2);
    assert_doca_refused(try_create(testbed_cfg(0, "lpm", DOCA_FLOW_PIPE_LPM, true), &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED,
                        "root pipe lpm");
    assert_doca_refused(try_create(testbed_cfg(0, "ct", DOCA_FLOW_PIPE_CT, false), &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED,
                        "connection tracking");
    assert_doca_refused(try_create(testbed_cfg(0, "acl", DOCA_FLOW_PIPE_ACL, false), &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED,
                        "access lists");
    assert_doca_refused(try_create(testbed_cfg(0, "shared", DOCA_FLOW_PIPE_BASIC, false), &shared, NULL),
                        DOCA_ERROR_NOT_SUPPORTED, "shared RSS");
    cfg = testbed_cfg(0, "random", DOCA_FLOW_PIPE_HASH, false);
    assert_doca_refused(doca_flow_pipe_cfg_set_hash_map_algorithm(cfg, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_RANDOM),
                        DOCA_ERROR_NOT_SUPPORTED, "HASH and FLOODING");
    assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    assert_doca_refused(try_create(testbed_cfg(0, "miss", DOCA_FLOW_PIPE_BASIC, true), &fwd, &bad), DOCA_ERROR_NOT_SUPPORTED,
                        "fwd_miss of type 2");
    assert_doca_refused(try_create(testbed_cfg(0, "miss", DOCA_FLOW_PIPE_BASIC, true), &fwd, &rss), DOCA_ERROR_NOT_SUPPORTED,
                        "fwd_miss of type 1");
    (void)testbed_all(0, &fwd);
    assert_doca_refused(try_create(testbed_cfg(0, "twice", DOCA_FLOW_PIPE_BASIC, true), &fwd, NULL), DOCA_ERROR_INVALID_VALUE,
                        "second root pipe");

    cfg = testbed_cfg(0, "l3", DOCA_FLOW_PIPE_BASIC, false);
    match.outer.l3_type = (enum doca_flow_l3_type)UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_refused(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "cannot be changeable");
    cfg = testbed_cfg(0, "meta", DOCA_FLOW_PIPE_BASIC, false);
    memset(&match, 0, sizeof(match));
    match.meta.u32[0] = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_refused(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "without a mask");
    cfg = testbed_cfg(0, "gtp", DOCA_FLOW_PIPE_BASIC, false);
    memset(&match, 0, sizeof(match));
    match.tun.type = DOCA_FLOW_TUN_GTPU;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_refused(try_create(cfg, &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED, "tunnel type 2");
    cfg = testbed_cfg(0, "no mask", DOCA_FLOW_PIPE_HASH, false);
    memset(&match, 0, sizeof(match));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_refused(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "no mask");
    cfg = testbed_cfg(0, "domain", DOCA_FLOW_PIPE_BASIC, false);
    assert_doca_ok(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS));
    assert_doca_refused(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS), DOCA_ERROR_ALREADY_EXIST,
                        "second time");
    assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    (void)mask;

    assert_doca_ok(doca_flow_port_cfg_create(&port));
    assert_doca_refused(doca_flow_port_cfg_set_actions_mem_size(port, 96), DOCA_ERROR_INVALID_VALUE, "power of two");
    assert_doca_refused(doca_flow_port_start(port, &testbed_port[5]), DOCA_ERROR_INVALID_VALUE, "without a port id");
    assert_doca_ok(doca_flow_port_cfg_set_port_id(port, 5));
    assert_doca_refused(doca_flow_port_start(port, &testbed_port[5]), DOCA_ERROR_INVALID_VALUE, "without a device");
    assert_doca_ok(doca_flow_port_cfg_destroy(port));
    assert_doca_refused(doca_flow_port_pair(testbed_port[0], testbed_port[0]), DOCA_ERROR_INVALID_VALUE, "different");
    assert_doca_refused(doca_flow_entries_process(testbed_port[0], 9, 0, 0), DOCA_ERROR_INVALID_VALUE, "queue 9");
    testbed_down();
}

static void configures_modes(void **state)
{
    struct doca_flow_cfg *cfg;

    assert_doca_ok(doca_flow_cfg_create(&cfg));
    assert_doca_refused(doca_flow_init(cfg), DOCA_ERROR_INVALID_VALUE, "without mode_args");
    assert_doca_ok(doca_flow_cfg_set_mode_args(cfg, "switch,hws,hairpinq_num=4,expert"));
    assert_doca_ok(doca_flow_cfg_set_mode_args(cfg, "vnf"));
    assert_doca_refused(doca_flow_cfg_set_mode_args(cfg, "router"), DOCA_ERROR_INVALID_VALUE, "router");
    assert_doca_refused(doca_flow_cfg_set_mode_args(cfg, "vnfx,hws"), DOCA_ERROR_INVALID_VALUE, "vnfx");
    assert_doca_ok(doca_flow_init(cfg));
    assert_doca_refused(doca_flow_init(cfg), DOCA_ERROR_INVALID_VALUE, "second time");
    assert_doca_ok(doca_flow_cfg_destroy(cfg));
    doca_flow_destroy();
}

/* Each of these works with a warning, and not at all when strict. */
static void strict_refuses_what_is_unproven(void **state)
{
    struct doca_flow_match all = {0}, key = {.parser_meta = {.random = UINT16_MAX}};
    struct doca_flow_actions encap = {0}, halves = {0}, *encaps[] = {&encap}, *half[] = {&halves};
    struct doca_flow_action_desc desc = {.type = DOCA_FLOW_ACTION_COPY};
    struct doca_flow_action_descs descs = {.nb_action_desc = 1, .desc_array = &desc}, *desc_list[] = {&descs};
    struct doca_flow_fwd fwd = to_port(1), drop = to_drop();

    encap.encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    encap.encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    encap.encap_cfg.encap.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    encap.encap_cfg.encap.outer.ip4.next_proto = 4;
    desc.field_op.src.field_string = "outer.ipv6.src_ip";
    desc.field_op.dst.field_string = "meta.data";
    desc.field_op.width = 32;
    for (unsigned strict = 0; strict < 2; strict++) {
        doca_error_t expected = strict ? DOCA_ERROR_NOT_SUPPORTED : DOCA_SUCCESS;
        struct doca_flow_pipe_cfg *cfg;
        uint64_t before;

        testbed_up("switch,hws", 2);
        doca_flow_model_set_strict(strict);
        assert_int_equal(doca_flow_model_is_strict(), strict);
        before = doca_flow_model_unproven();

        cfg = testbed_cfg(0, "three slots", DOCA_FLOW_PIPE_HASH, false);
        assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 3));
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        assert_int_equal(try_create(cfg, &fwd, NULL), expected);

        cfg = testbed_cfg(0, "a miss of a hash pipe", DOCA_FLOW_PIPE_HASH, false);
        assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        assert_int_equal(try_create(cfg, &fwd, &drop), expected);

        cfg = testbed_cfg(0, "encap in a hash pipe", DOCA_FLOW_PIPE_HASH, false);
        assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, encaps, NULL, NULL, 1));
        assert_int_equal(try_create(cfg, &fwd, NULL), expected);

        cfg = testbed_cfg(0, "IP-in-IP in the default domain", DOCA_FLOW_PIPE_BASIC, false);
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, encaps, NULL, NULL, 1));
        assert_int_equal(try_create(cfg, &fwd, NULL), expected);

        cfg = testbed_cfg(0, "a quarter of an IPv6 address", DOCA_FLOW_PIPE_BASIC, false);
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, half, NULL, desc_list, 1));
        assert_int_equal(try_create(cfg, &fwd, NULL), expected);
        if (strict)
            assert_true(strstr(doca_flow_model_reason(), "unproven: a descriptor on part of an IPv6 address") != NULL);
        assert_true(doca_flow_model_unproven() >= before + 5);
        testbed_down();
    }
}

static void an_entry_may_not_change_a_fixed_forward(void **state)
{
    struct doca_flow_match all = {0};
    struct doca_flow_fwd one = to_port(1), drop = to_drop(), kernel = {.type = DOCA_FLOW_FWD_TARGET}, open;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "fixed", DOCA_FLOW_PIPE_BASIC, true);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = testbed_create(cfg, &one, NULL);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &drop, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "is fixed");
    open = to_port(0);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &open, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "that is fixed");
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &one, 0, NULL, NULL));
    doca_flow_pipe_destroy(pipe);
    cfg = testbed_cfg(0, "open", DOCA_FLOW_PIPE_BASIC, true);
    open = to_port(UINT16_MAX);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = testbed_create(cfg, &open, NULL);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "leaves to its entries");
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &open, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "still leaves its target open");
    assert_doca_ok(doca_flow_get_target(DOCA_FLOW_TARGET_KERNEL, &kernel.target));
    doca_flow_model_set_strict(true);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &drop, 0, NULL, NULL),
                        DOCA_ERROR_NOT_SUPPORTED, "unproven: entry with a forward of type 4");
    /* The kernel among ports: XenoFlow does that. */
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &kernel, 0, NULL, NULL));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_KERNEL);
    testbed_down();
}

/* With a mask, all ones and 0 are the entry's, anything else is the pipe's, whatever the entry says. */
static void explicit_masks_choose_whose_value_counts(void **state)
{
    struct doca_flow_match match = {0}, mask = {0}, entry = {0};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "explicit", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l3_type = mask.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.src_ip = DOCA_HTOBE32(0x0a000000);
    mask.outer.ip4.src_ip = DOCA_HTOBE32(0xff000000);
    mask.outer.ip4.dst_ip = DOCA_HTOBE32(0xffff0000);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    pipe = testbed_create(cfg, &fwd, NULL);
    entry.outer.ip4.src_ip = DOCA_HTOBE32(0x63636363);
    entry.outer.ip4.dst_ip = DOCA_HTOBE32(0xc0a80707);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &entry, 0, NULL, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);
    frame_packet(&frame, "10.77.1.1", "192.168.1.1", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "11.77.1.1", "192.168.1.1", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    frame_packet(&frame, "10.77.1.1", "192.169.1.1", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    testbed_down();
}

static void a_loop_of_pipes_ends(void **state)
{
    struct doca_flow_match all = {0};
    struct doca_flow_fwd open = {.type = DOCA_FLOW_FWD_PIPE}, next;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "loop", DOCA_FLOW_PIPE_BASIC, false);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = testbed_create(cfg, &open, NULL);
    next = to_pipe(pipe);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &next, 0, NULL, NULL));
    (void)testbed_all(0, &next);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_BROKEN);
    testbed_down();
}

/* What the mask leaves 0 is ignored, also where the model would refuse it if it counted; published programs fill
 * structures with all ones and choose by the mask. */
static void what_the_mask_leaves_out_is_ignored(void **state)
{
    struct doca_flow_match match = {0}, mask = {0}, entry = {0};
    struct doca_flow_actions set = {0}, set_mask = {0}, *templates[] = {&set}, *masks[] = {&set_mask};
    struct doca_flow_fwd one = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "masked", DOCA_FLOW_PIPE_BASIC, true);
    memset(&match.parser_meta, 0xff, sizeof(match.parser_meta));
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_ROCE_V2;
    match.outer.roce_v2.bth.opcode = 7;
    match.tun = (struct doca_flow_tun){.type = DOCA_FLOW_TUN_GRE, .protocol = 1};
    mask.parser_meta.outer_l4_type = (enum doca_flow_l4_meta)UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    set.parser_meta.random = UINT16_MAX;
    set.outer.eth.dst_mac[5] = 9;
    set_mask.outer.eth.dst_mac[5] = 0xff;
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, masks, NULL, 1));
    pipe = testbed_create(cfg, &one, NULL);
    entry.parser_meta.outer_l4_type = DOCA_FLOW_L4_META_UDP;
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &entry, 0, NULL, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 6, 7, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    doca_flow_pipe_destroy(pipe);
    cfg = testbed_cfg(0, "all ones", DOCA_FLOW_PIPE_BASIC, true);
    memset(&match, 0xff, sizeof(match));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    pipe = testbed_create(cfg, &one, NULL);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &entry, 0, NULL, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    doca_flow_pipe_destroy(pipe);

    /* With the mask, each of them counts, and the model cannot do it. */
    for (unsigned i = 0; i < 3; i++) {
        struct doca_flow_match wanted = mask;

        match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_ROCE_V2;
        match.tun.type = DOCA_FLOW_TUN_GRE;
        if (i == 0)
            wanted.parser_meta.psp_syndrome = 1;
        else if (i == 1)
            wanted.outer.roce_v2.bth.opcode = UINT8_MAX;
        else
            wanted.tun.protocol = UINT16_MAX;
        cfg = testbed_cfg(0, "wanted", DOCA_FLOW_PIPE_BASIC, true);
        assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &wanted));
        assert_int_equal(doca_flow_pipe_create(cfg, &one, NULL, &pipe), DOCA_ERROR_NOT_SUPPORTED);
        assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    }
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(configures_modes),
        cmocka_unit_test(strict_refuses_what_is_unproven),
        cmocka_unit_test(an_entry_may_not_change_a_fixed_forward),
        cmocka_unit_test(explicit_masks_choose_whose_value_counts),
        cmocka_unit_test(what_the_mask_leaves_out_is_ignored),
        cmocka_unit_test(a_loop_of_pipes_ends),
    };

    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
