/* What is refused always, what only when strict, and what matches mean. */
#include "bench.h"

static doca_error_t try_create(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                               const struct doca_flow_fwd *miss)
{
    struct doca_flow_pipe *pipe;
    doca_error_t result = doca_flow_pipe_create(cfg, fwd, miss, &pipe);

    CHECK_OK(doca_flow_pipe_cfg_destroy(cfg));
    return result;
}

static void refuses_what_cannot_be(void)
{
    struct doca_flow_fwd fwd = to_port(1), bad = to_port(1), rss = {.type = DOCA_FLOW_FWD_RSS};
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_port_cfg *port;

    bench_up("vnf,hws", 2);
    CHECK_REFUSED(try_create(bench_cfg(0, "lpm", DOCA_FLOW_PIPE_LPM, true), &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED,
                  "root pipe lpm");
    CHECK_REFUSED(try_create(bench_cfg(0, "ct", DOCA_FLOW_PIPE_CT, false), &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED,
                  "connection tracking");
    CHECK_REFUSED(try_create(bench_cfg(0, "miss", DOCA_FLOW_PIPE_BASIC, true), &fwd, &bad), DOCA_ERROR_NOT_SUPPORTED,
                  "fwd_miss of type 2");
    CHECK_REFUSED(try_create(bench_cfg(0, "miss", DOCA_FLOW_PIPE_BASIC, true), &fwd, &rss), DOCA_ERROR_NOT_SUPPORTED,
                  "fwd_miss of type 1");
    (void)bench_all(0, &fwd);
    CHECK_REFUSED(try_create(bench_cfg(0, "twice", DOCA_FLOW_PIPE_BASIC, true), &fwd, NULL), DOCA_ERROR_INVALID_VALUE,
                  "second root pipe");

    cfg = bench_cfg(0, "l3", DOCA_FLOW_PIPE_BASIC, false);
    match.outer.l3_type = (enum doca_flow_l3_type)UINT32_MAX;
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    CHECK_REFUSED(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "cannot be changeable");
    cfg = bench_cfg(0, "meta", DOCA_FLOW_PIPE_BASIC, false);
    memset(&match, 0, sizeof(match));
    match.meta.u32[0] = UINT32_MAX;
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    CHECK_REFUSED(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "without a mask");
    cfg = bench_cfg(0, "gtp", DOCA_FLOW_PIPE_BASIC, false);
    memset(&match, 0, sizeof(match));
    match.tun.type = DOCA_FLOW_TUN_GTPU;
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    CHECK_REFUSED(try_create(cfg, &fwd, NULL), DOCA_ERROR_NOT_SUPPORTED, "tunnel type 2");
    cfg = bench_cfg(0, "no mask", DOCA_FLOW_PIPE_HASH, false);
    memset(&match, 0, sizeof(match));
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    CHECK_REFUSED(try_create(cfg, &fwd, NULL), DOCA_ERROR_INVALID_VALUE, "no mask");
    cfg = bench_cfg(0, "domain", DOCA_FLOW_PIPE_BASIC, false);
    CHECK_OK(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS));
    CHECK_REFUSED(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS), DOCA_ERROR_ALREADY_EXIST,
                  "second time");
    CHECK_OK(doca_flow_pipe_cfg_destroy(cfg));
    (void)mask;

    CHECK_OK(doca_flow_port_cfg_create(&port));
    CHECK_REFUSED(doca_flow_port_cfg_set_actions_mem_size(port, 96), DOCA_ERROR_INVALID_VALUE, "power of two");
    CHECK_REFUSED(doca_flow_port_start(port, &bench_port[5]), DOCA_ERROR_INVALID_VALUE, "without a port id");
    CHECK_OK(doca_flow_port_cfg_set_port_id(port, 5));
    CHECK_REFUSED(doca_flow_port_start(port, &bench_port[5]), DOCA_ERROR_INVALID_VALUE, "without a device");
    CHECK_OK(doca_flow_port_cfg_destroy(port));
    CHECK_REFUSED(doca_flow_port_pair(bench_port[0], bench_port[0]), DOCA_ERROR_INVALID_VALUE, "different");
    CHECK_REFUSED(doca_flow_entries_process(bench_port[0], 9, 0, 0), DOCA_ERROR_INVALID_VALUE, "queue 9");
    bench_down();
}

static void configures_modes(void)
{
    struct doca_flow_cfg *cfg;

    CHECK_OK(doca_flow_cfg_create(&cfg));
    CHECK_REFUSED(doca_flow_init(cfg), DOCA_ERROR_INVALID_VALUE, "without mode_args");
    CHECK_OK(doca_flow_cfg_set_mode_args(cfg, "switch,hws,hairpinq_num=4,expert"));
    CHECK_OK(doca_flow_cfg_set_mode_args(cfg, "vnf"));
    CHECK_REFUSED(doca_flow_cfg_set_mode_args(cfg, "router"), DOCA_ERROR_INVALID_VALUE, "router");
    CHECK_REFUSED(doca_flow_cfg_set_mode_args(cfg, "vnfx,hws"), DOCA_ERROR_INVALID_VALUE, "vnfx");
    CHECK_OK(doca_flow_init(cfg));
    CHECK_REFUSED(doca_flow_init(cfg), DOCA_ERROR_INVALID_VALUE, "second time");
    CHECK_OK(doca_flow_cfg_destroy(cfg));
    doca_flow_destroy();
}

/* Each of these works with a warning, and not at all when strict. */
static void strict_refuses_what_is_unproven(void)
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

        bench_up("switch,hws", 2);
        doca_flow_model_set_strict(strict);
        CHECK_EQ(doca_flow_model_is_strict(), strict);
        before = doca_flow_model_unproven();

        cfg = bench_cfg(0, "three slots", DOCA_FLOW_PIPE_HASH, false);
        CHECK_OK(doca_flow_pipe_cfg_set_nr_entries(cfg, 3));
        CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        CHECK_EQ(try_create(cfg, &fwd, NULL), expected);

        cfg = bench_cfg(0, "a miss of a hash pipe", DOCA_FLOW_PIPE_HASH, false);
        CHECK_OK(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
        CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        CHECK_EQ(try_create(cfg, &fwd, &drop), expected);

        cfg = bench_cfg(0, "encap in a hash pipe", DOCA_FLOW_PIPE_HASH, false);
        CHECK_OK(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
        CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
        CHECK_OK(doca_flow_pipe_cfg_set_actions(cfg, encaps, NULL, NULL, 1));
        CHECK_EQ(try_create(cfg, &fwd, NULL), expected);

        cfg = bench_cfg(0, "IP-in-IP in the default domain", DOCA_FLOW_PIPE_BASIC, false);
        CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        CHECK_OK(doca_flow_pipe_cfg_set_actions(cfg, encaps, NULL, NULL, 1));
        CHECK_EQ(try_create(cfg, &fwd, NULL), expected);

        cfg = bench_cfg(0, "a quarter of an IPv6 address", DOCA_FLOW_PIPE_BASIC, false);
        CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
        CHECK_OK(doca_flow_pipe_cfg_set_actions(cfg, half, NULL, desc_list, 1));
        CHECK_EQ(try_create(cfg, &fwd, NULL), expected);
        if (strict)
            CHECK(strstr(doca_flow_model_reason(), "unproven: a descriptor on part of an IPv6 address") != NULL);

        cfg = bench_cfg(0, "round robin", DOCA_FLOW_PIPE_HASH, false);
        CHECK_EQ(doca_flow_pipe_cfg_set_hash_map_algorithm(cfg, DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_ROUND_ROBIN),
                 expected);
        CHECK_OK(doca_flow_pipe_cfg_destroy(cfg));
        CHECK(doca_flow_model_unproven() >= before + 6);
        bench_down();
    }
}

static void an_entry_may_not_change_a_fixed_forward(void)
{
    struct doca_flow_match all = {0};
    struct doca_flow_fwd one = to_port(1), drop = to_drop(), kernel = {.type = DOCA_FLOW_FWD_TARGET}, open;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;

    bench_up("vnf,hws", 2);
    cfg = bench_cfg(0, "fixed", DOCA_FLOW_PIPE_BASIC, true);
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = bench_create(cfg, &one, NULL);
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &drop, 0, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE, "is fixed");
    open = to_port(0);
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &open, 0, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE, "that is fixed");
    CHECK_OK(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &one, 0, NULL, NULL));
    doca_flow_pipe_destroy(pipe);
    cfg = bench_cfg(0, "open", DOCA_FLOW_PIPE_BASIC, true);
    open = to_port(UINT16_MAX);
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = bench_create(cfg, &open, NULL);
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE, "leaves to its entries");
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &open, 0, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE, "still leaves its target open");
    CHECK_OK(doca_flow_get_target(DOCA_FLOW_TARGET_KERNEL, &kernel.target));
    doca_flow_model_set_strict(true);
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &kernel, 0, NULL, NULL),
                  DOCA_ERROR_NOT_SUPPORTED, "unproven: entry with a forward of type 5");
    bench_down();
}

/* With a mask, all ones and 0 are the entry's, anything else is the pipe's, whatever the entry says. */
static void explicit_masks_choose_whose_value_counts(void)
{
    struct doca_flow_match match = {0}, mask = {0}, entry = {0};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    bench_up("vnf,hws", 2);
    cfg = bench_cfg(0, "explicit", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l3_type = mask.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.ip4.src_ip = DOCA_HTOBE32(0x0a000000);
    mask.outer.ip4.src_ip = DOCA_HTOBE32(0xff000000);
    mask.outer.ip4.dst_ip = DOCA_HTOBE32(0xffff0000);
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    pipe = bench_create(cfg, &fwd, NULL);
    entry.outer.ip4.src_ip = DOCA_HTOBE32(0x63636363);
    entry.outer.ip4.dst_ip = DOCA_HTOBE32(0xc0a80707);
    CHECK_OK(doca_flow_pipe_basic_add_entry(0, pipe, &entry, 0, NULL, NULL, NULL, 0, NULL, NULL));
    bench_process(0);
    frame_packet(&frame, "10.77.1.1", "192.168.1.1", 17, 1, 2);
    bench_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "11.77.1.1", "192.168.1.1", 17, 1, 2);
    bench_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    frame_packet(&frame, "10.77.1.1", "192.169.1.1", 17, 1, 2);
    bench_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    bench_down();
}

static void default_misses_go_where_told(void)
{
    struct doca_flow_resource_query query;
    struct frame frame;

    bench_up("vnf,hws", 2);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    bench_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    CHECK_OK(doca_flow_port_update_default_miss(bench_port[0], DOCA_FLOW_PORT_DEFAULT_MISS_KERNEL, true));
    bench_expect(0, &frame, DOCA_FLOW_MODEL_KERNEL);
    CHECK_OK(doca_flow_port_update_default_miss(bench_port[0], DOCA_FLOW_PORT_DEFAULT_MISS_DROP, false));
    bench_expect(0, &frame, DOCA_FLOW_MODEL_DROPPED);
    CHECK_OK(doca_flow_port_query_default_miss(bench_port[0], &query));
    CHECK_EQ(query.counter.total_pkts, 2);
    bench_down();
}

static void a_loop_of_pipes_ends(void)
{
    struct doca_flow_match all = {0};
    struct doca_flow_fwd open = {.type = DOCA_FLOW_FWD_PIPE}, next;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    bench_up("vnf,hws", 2);
    cfg = bench_cfg(0, "loop", DOCA_FLOW_PIPE_BASIC, false);
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = bench_create(cfg, &open, NULL);
    next = to_pipe(pipe);
    CHECK_OK(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, &next, 0, NULL, NULL));
    (void)bench_all(0, &next);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    bench_expect(0, &frame, DOCA_FLOW_MODEL_BROKEN);
    bench_down();
}

RUN_TESTS(TEST(refuses_what_cannot_be), TEST(configures_modes), TEST(strict_refuses_what_is_unproven),
          TEST(an_entry_may_not_change_a_fixed_forward), TEST(explicit_masks_choose_whose_value_counts),
          TEST(default_misses_go_where_told), TEST(a_loop_of_pipes_ends))
