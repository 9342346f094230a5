/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and callbacks, updates and removals, resizing, aging, budgets, counters. */
#include <time.h>

#include "testbed.h"

static struct doca_flow_pipe *ports_pipe(uint32_t entries, const struct doca_flow_monitor *monitor)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(UINT16_MAX);
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, "ports", DOCA_FLOW_PIPE_BASIC, true);

    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.src_port = UINT16_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, entries));
    if (monitor != NULL)
        assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, monitor));
    return testbed_create(cfg, &fwd, NULL);
}

static doca_error_t add(struct doca_flow_pipe *pipe, uint16_t sport, uint16_t to, uint32_t flags, struct seen *seen,
                        struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(to);

    match.outer.udp.l4_port.src_port = DOCA_HTOBE16(sport);
    return doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, &fwd, flags, seen, entry);
}

static void reports_when_asked_and_not_before(void **state)
{
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(64, NULL);
    for (uint16_t i = 0; i < 21; i++)
        assert_doca_ok(add(pipe, i, 1, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT, &seen, &entry));
    assert_int_equal(seen.adds, 0);
    assert_int_equal(doca_flow_pipe_entry_get_status(entry), DOCA_FLOW_ENTRY_STATUS_IN_PROCESS);
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 0, 10000, 6));
    assert_int_equal(seen.adds, 6);
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 1, 10000, 0)); /* another queue */
    assert_int_equal(seen.adds, 6);
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 0, 10000, 0));
    assert_int_equal(seen.adds, 21);
    assert_int_equal(doca_flow_pipe_entry_get_status(entry), DOCA_FLOW_ENTRY_STATUS_SUCCESS);
    assert_int_equal(seen.errors, 0);
    testbed_down();
    assert_int_equal(seen.removals, 0); /* nothing is called back on the way down */
}

static uint64_t now_us(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* How long it takes, in microseconds. */
static uint64_t process(uint64_t timeout_us, uint32_t most)
{
    uint64_t before = now_us();

    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 0, timeout_us, most));
    return now_us() - before;
}

static void waits_for_as_many_as_it_is_told(void **state)
{
    const uint64_t hour = 3600000000, some = 20000;
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(64, NULL);
    for (uint16_t i = 0; i < 6; i++)
        assert_doca_ok(add(pipe, i, 1, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT, &seen, NULL));
    (void)process(hour, 3); /* they are there */
    assert_int_equal(seen.adds, 3);
    assert_true(process(some, 4) >= some); /* one more than there are */
    assert_int_equal(seen.adds, 6);
    assert_true(process(some, 0) >= some); /* no limit but the timeout */
    assert_doca_ok(add(pipe, 6, 1, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT, &seen, NULL));
    (void)process(0, 0);
    assert_int_equal(seen.adds, 7);
    testbed_down();
}

static void batches_wait(void **state)
{
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};
    struct frame frame;

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(64, NULL);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    assert_doca_ok(add(pipe, 7, 1, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL));
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    assert_doca_ok(add(pipe, 8, 1, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT, &seen, NULL));
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    assert_doca_ok(add(pipe, 9, 1, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL));
    testbed_process(0);
    assert_int_equal(seen.adds, 3);
    assert_doca_refused(add(pipe, 10, 1, 3, &seen, NULL), DOCA_ERROR_INVALID_VALUE, "flags 0x3");
    assert_doca_refused(add(pipe, 9, 1, 0, &seen, NULL), DOCA_ERROR_ALREADY_EXIST, "with this match");
    testbed_down();
}

static void updates_and_removes(void **state)
{
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *pipe;
    struct doca_flow_fwd two = to_port(2);
    struct seen seen = {0};
    struct frame frame;

    testbed_up("switch,hws", 3);
    pipe = ports_pipe(64, NULL);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    assert_doca_ok(add(pipe, 7, 1, 0, &seen, &entry));
    testbed_process(0);
    assert_doca_ok(doca_flow_pipe_basic_update_entry(0, pipe, 0, NULL, NULL, &two, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH,
                                                     entry));
    assert_doca_refused(doca_flow_pipe_basic_update_entry(0, pipe, 0, NULL, NULL, &two, 0, entry), DOCA_ERROR_AGAIN,
                        "waits for another");
    testbed_expect_frame(0, &frame, 1, &frame);
    testbed_process(0);
    testbed_expect_frame(0, &frame, 2, &frame);
    assert_int_equal(seen.updates, 1);
    assert_doca_ok(doca_flow_pipe_remove_entry(0, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, entry));
    assert_doca_refused(doca_flow_pipe_remove_entry(0, 0, entry), DOCA_ERROR_INVALID_VALUE, "being removed");
    testbed_expect_frame(0, &frame, 2, &frame);
    /* The same match again: the removal goes first. */
    assert_doca_ok(add(pipe, 7, 1, 0, &seen, &entry));
    testbed_expect_frame(0, &frame, 1, &frame);
    testbed_process(0);
    assert_int_equal(seen.removals, 1);
    assert_int_equal(seen.adds, 2);
    /* Added on one queue, removed on another that is processed first. */
    assert_doca_ok(add(pipe, 8, 1, 0, &seen, &entry));
    assert_doca_ok(doca_flow_pipe_remove_entry(1, 0, entry));
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 1, 0, 0));
    testbed_process(0);
    assert_int_equal(seen.removals, 2);
    testbed_down();
}

static void bounds_entries_operations_and_counters(void **state)
{
    struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_fwd two = to_port(1);
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(2, NULL);
    assert_doca_ok(add(pipe, 1, 1, 0, NULL, NULL));
    assert_doca_ok(add(pipe, 2, 1, 0, NULL, NULL));
    assert_doca_refused(add(pipe, 3, 1, 0, NULL, NULL), DOCA_ERROR_DRIVER, "is full");
    doca_flow_pipe_destroy(pipe);

    pipe = ports_pipe(4096, NULL);
    /* What waits in a pipe that goes leaves its room in the queue to others. */
    for (uint16_t i = 0; i < 100; i++)
        assert_doca_ok(add(pipe, i, 1, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL));
    doca_flow_pipe_destroy(pipe);
    pipe = ports_pipe(4096, NULL);
    /* The depth bounds what waits for its batch, not what was pushed and waits to be reported. */
    for (uint16_t i = 0; i < 128; i++)
        assert_doca_ok(add(pipe, i, 1, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL));
    assert_doca_refused(add(pipe, 128, 1, DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL), DOCA_ERROR_DRIVER,
                        "holds 128 operations");
    testbed_process(0);
    for (uint16_t i = 128; i < 500; i++)
        assert_doca_ok(add(pipe, i, 1, i % 100 == 0 ? 0 : DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH, &seen, NULL));
    assert_int_equal(seen.adds, 128);
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 0, 0, 500));
    assert_int_equal(seen.adds, 500);
    assert_int_equal(seen.errors, 0);
    doca_flow_pipe_destroy(pipe);

    pipe = ports_pipe(4096, &monitor);
    for (uint16_t i = 0; i < TESTBED_BUDGET; i++)
        assert_doca_ok(add(pipe, i, 1, 0, NULL, &entry));
    assert_doca_refused(add(pipe, 1000, 1, 0, NULL, NULL), DOCA_ERROR_DRIVER, "no counter left");
    testbed_process(0);
    /* An update keeps the counter that the entry has, even where there is no other. */
    assert_doca_ok(doca_flow_pipe_basic_update_entry(0, pipe, 0, NULL, NULL, &two, 0, entry));
    testbed_process(0);
    assert_doca_refused(add(pipe, 1000, 1, 0, NULL, NULL), DOCA_ERROR_DRIVER, "no counter left");
    assert_doca_ok(doca_flow_pipe_remove_entry(0, 0, entry));
    testbed_process(0);
    assert_doca_ok(add(pipe, 1000, 1, 0, NULL, NULL));
    testbed_down();
}

static void counts_hits_and_misses(void **state)
{
    struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(1), drop = to_drop();
    struct doca_flow_resource_query query;
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "counted", DOCA_FLOW_PIPE_BASIC, true);
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.dst_port = DOCA_HTOBE16(53);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, &monitor));
    assert_doca_ok(doca_flow_pipe_cfg_set_miss_counter(cfg, true));
    pipe = testbed_create(cfg, &fwd, &drop);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, NULL, 0, NULL, NULL, NULL, 0, NULL, &entry));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 7, 54);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_DROPPED);
    assert_int_equal(testbed_packets(entry), 2);
    assert_doca_ok(doca_flow_resource_query_pipe_miss(pipe, &query));
    assert_int_equal(query.counter.total_pkts, 1);
    assert_int_equal(query.counter.total_bytes, frame.length);
    testbed_down();
}

static void ages_entries(void **state)
{
    struct doca_flow_monitor monitor = {.aging_sec = 5};
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};
    struct frame frame;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_clock(1000000000);
    pipe = ports_pipe(64, &monitor);
    assert_doca_ok(add(pipe, 7, 1, 0, &seen, NULL));
    assert_doca_ok(add(pipe, 8, 1, 0, &seen, NULL));
    testbed_process(0);
    doca_flow_model_set_clock(4000000000);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 8, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(doca_flow_aging_handle(testbed_port[0], 0, 0, 0), -1);
    doca_flow_model_set_clock(6500000000);
    assert_int_equal(doca_flow_aging_handle(testbed_port[0], 0, 0, 0), 1);
    assert_int_equal(seen.aged, 1);
    assert_int_equal(doca_flow_aging_handle(testbed_port[0], 0, 0, 0), -1);
    doca_flow_model_set_clock(UINT64_MAX);
    testbed_down();
}

static void forgets_pipes_that_are_gone(void **state)
{
    struct doca_flow_fwd one = to_port(1), next;
    struct doca_flow_match all = {0};
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame frame;

    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "second", DOCA_FLOW_PIPE_BASIC, false);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    pipe = testbed_create(cfg, &one, NULL);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL));
    next = to_pipe(pipe);
    (void)testbed_all(0, &next);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 8, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    doca_flow_pipe_destroy(pipe);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_DROPPED);
    doca_flow_port_pipes_flush(NULL);
    doca_flow_port_pipes_flush(testbed_port[0]);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_MISSED);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_when_asked_and_not_before),
        cmocka_unit_test(waits_for_as_many_as_it_is_told),
        cmocka_unit_test(batches_wait),
        cmocka_unit_test(updates_and_removes),
        cmocka_unit_test(bounds_entries_operations_and_counters),
        cmocka_unit_test(counts_hits_and_misses),
        cmocka_unit_test(ages_entries),
        cmocka_unit_test(forgets_pipes_that_are_gone),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
