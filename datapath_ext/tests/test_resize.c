/* Pipes that grow, step by step as a public program expects it. */
#include "bench.h"

static unsigned congested, resized;
static uint32_t sizes[8];
static unsigned size_count, relocated;

static doca_error_t on_size(void *pipe_ctx, uint32_t entries)
{
    CHECK(pipe_ctx == &congested);
    CHECK(size_count < 8);
    sizes[size_count++] = entries;
    return DOCA_SUCCESS;
}

static doca_error_t on_relocate(void *pipe_ctx, uint16_t queue, void *entry_ctx, void **new_entry_ctx)
{
    CHECK(pipe_ctx == &congested);
    CHECK_EQ(queue, 0);
    *new_entry_ctx = entry_ctx;
    relocated++;
    return DOCA_SUCCESS;
}

static void on_pipe(struct doca_flow_pipe *pipe, enum doca_flow_pipe_status status, enum doca_flow_pipe_op op,
                    void *user_ctx)
{
    (void)pipe;
    CHECK_EQ(status, DOCA_FLOW_PIPE_STATUS_SUCCESS);
    CHECK(user_ctx == &congested);
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
    CHECK_EQ(status, DOCA_FLOW_ENTRY_STATUS_SUCCESS);
    CHECK_EQ(op, DOCA_FLOW_ENTRY_OP_ADD);
    (*(unsigned *)user_ctx)++;
}

static void grows_from_10_to_128(void)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    unsigned adds[80] = {0};

    bench_callbacks(count_adds, on_pipe);
    bench_up("switch,hws,cpds", 2);
    cfg = bench_cfg(0, "growing", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.src_port = UINT16_MAX;
    CHECK_OK(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    CHECK_OK(doca_flow_pipe_cfg_set_nr_entries(cfg, 10));
    CHECK_OK(doca_flow_pipe_cfg_set_is_resizable(cfg, true));
    CHECK_OK(doca_flow_pipe_cfg_set_congestion_level_threshold(cfg, 80));
    CHECK_OK(doca_flow_pipe_cfg_set_excluded_queue(cfg, 1));
    CHECK_OK(doca_flow_pipe_cfg_set_user_ctx(cfg, &congested));
    pipe = bench_create(cfg, &fwd, NULL);
    for (uint16_t i = 0; i < 80; i++) {
        unsigned before = congested;

        match.outer.udp.l4_port.src_port = DOCA_HTOBE16(i);
        CHECK_OK(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, NULL, 0, &adds[i], NULL));
        if (congested == before)
            continue;
        CHECK_OK(doca_flow_pipe_resize(pipe, 50, on_size, on_relocate));
        CHECK_OK(doca_flow_entries_process(bench_port[0], 1, 0, 0));
        CHECK_EQ(resized, before); /* not on the excluded queue */
        bench_process(0);
        CHECK_EQ(resized, congested);
    }
    bench_process(0);
    CHECK_EQ(size_count, 4);
    CHECK_EQ(sizes[0], 16);
    CHECK_EQ(sizes[1], 32);
    CHECK_EQ(sizes[2], 64);
    CHECK_EQ(sizes[3], 128);
    CHECK_EQ(relocated, 8 + 13 + 26 + 52);
    for (unsigned i = 0; i < 80; i++)
        CHECK_EQ(adds[i], 1);
    CHECK_REFUSED(doca_flow_pipe_basic_add_entry(1, pipe, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE, "excludes");
    bench_down();
}

RUN_TESTS(TEST(grows_from_10_to_128))
