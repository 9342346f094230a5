/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes that grow, step by step as a public program expects it. */
#include "testbed.h"

static unsigned congested, resized;
static uint32_t sizes[8];
static unsigned size_count, relocated;

static doca_error_t on_size(void *pipe_ctx, uint32_t entries)
{
    assert_true(pipe_ctx == &congested);
    assert_true(size_count < 8);
    sizes[size_count++] = entries;
    return DOCA_SUCCESS;
}

static doca_error_t on_relocate(void *pipe_ctx, uint16_t queue, void *entry_ctx, void **new_entry_ctx)
{
    assert_true(pipe_ctx == &congested);
    assert_int_equal(queue, 0);
    *new_entry_ctx = entry_ctx;
    relocated++;
    return DOCA_SUCCESS;
}

static void on_pipe(struct doca_flow_pipe *pipe, enum doca_flow_pipe_status status, enum doca_flow_pipe_op op,
                    void *user_ctx)
{
    (void)pipe;
    assert_int_equal(status, DOCA_FLOW_PIPE_STATUS_SUCCESS);
    assert_true(user_ctx == &congested);
    if (op == DOCA_FLOW_PIPE_OP_CONGESTION_REACHED)
        congested++;
    if (op == DOCA_FLOW_PIPE_OP_RESIZED)
        resized++;
}

static void count_adds(struct doca_flow_pipe_entry *entry, uint16_t queue, enum doca_flow_entry_status status,
                       enum doca_flow_entry_op op, void *user_ctx)
{
    (void)entry;
    (void)queue;
    assert_int_equal(status, DOCA_FLOW_ENTRY_STATUS_SUCCESS);
    assert_int_equal(op, DOCA_FLOW_ENTRY_OP_ADD);
    (*(unsigned *)user_ctx)++;
}

static void grows_from_10_to_128(void **state)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    unsigned adds[80] = {0};

    testbed_callbacks(count_adds, on_pipe);
    testbed_up("switch,hws,cpds", 2);
    cfg = testbed_cfg(0, "growing", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.src_port = UINT16_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 10));
    assert_doca_ok(doca_flow_pipe_cfg_set_is_resizable(cfg, true));
    assert_doca_ok(doca_flow_pipe_cfg_set_congestion_level_threshold(cfg, 80));
    assert_doca_ok(doca_flow_pipe_cfg_set_excluded_queue(cfg, 1));
    assert_doca_ok(doca_flow_pipe_cfg_set_user_ctx(cfg, &congested));
    pipe = testbed_create(cfg, &fwd, NULL);
    for (uint16_t i = 0; i < 80; i++) {
        unsigned before = congested;

        match.outer.udp.l4_port.src_port = DOCA_HTOBE16(i);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, NULL, 0, &adds[i], NULL));
        if (congested == before)
            continue;
        assert_doca_ok(doca_flow_pipe_resize(pipe, 50, on_size, on_relocate));
        assert_doca_ok(doca_flow_entries_process(testbed_port[0], 1, 0, 0));
        assert_int_equal(resized, before); /* not on the excluded queue */
        testbed_process(0);
        assert_int_equal(resized, congested);
    }
    testbed_process(0);
    assert_int_equal(size_count, 4);
    assert_int_equal(sizes[0], 16);
    assert_int_equal(sizes[1], 32);
    assert_int_equal(sizes[2], 64);
    assert_int_equal(sizes[3], 128);
    assert_int_equal(relocated, 8 + 13 + 26 + 52);
    for (unsigned i = 0; i < 80; i++)
        assert_int_equal(adds[i], 1);
    assert_doca_refused(doca_flow_pipe_basic_add_entry(1, pipe, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL),
                        DOCA_ERROR_INVALID_VALUE, "excludes");
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_from_10_to_128),
    };

    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
