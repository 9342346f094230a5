/* SPDX-License-Identifier: Apache-2.0 */
/* What the model refuses or calls back on request, as hardware is reported to; and entries of one match in control pipes. */
#include "testbed.h"

static struct doca_flow_pipe *ports_pipe(uint32_t entries)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(UINT16_MAX);
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, "ports", DOCA_FLOW_PIPE_BASIC, true);

    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.src_port = UINT16_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, entries));
    return testbed_create(cfg, &fwd, NULL);
}

static doca_error_t add(struct doca_flow_pipe *pipe, uint16_t sport, struct seen *seen, struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_match match = {0};
    struct doca_flow_fwd fwd = to_port(1);

    match.outer.udp.l4_port.src_port = DOCA_HTOBE16(sport);
    return doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, &fwd, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT, seen, entry);
}

static doca_error_t update(struct doca_flow_pipe *pipe, struct doca_flow_pipe_entry *entry)
{
    struct doca_flow_fwd fwd = to_port(1);
    doca_error_t result = doca_flow_pipe_basic_update_entry(0, pipe, 0, NULL, NULL, &fwd, DOCA_FLOW_ENTRY_FLAGS_NO_WAIT,
                                                            entry);

    testbed_process(0);
    return result;
}

static void faults(struct doca_flow_model_faults wanted)
{
    doca_flow_model_set_faults(&wanted);
}

/* Before any call of set_faults: what the environment says. */
static void is_steered_by_the_environment(void **state)
{
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    assert_int_equal(setenv("DOCA_FLOW_MODEL_UPDATES_MOST", "1", 1), 0);
    assert_int_equal(setenv("DOCA_FLOW_MODEL_REMOVE_ONE_IN", "1", 1), 0);
    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(64);
    assert_doca_ok(add(pipe, 1, &seen, &entry));
    assert_doca_ok(update(pipe, entry));
    assert_doca_refused(update(pipe, entry), DOCA_ERROR_IN_USE, "update 2 of an entry of pipe ports");
    assert_doca_refused(doca_flow_pipe_remove_entry(0, 0, entry), DOCA_ERROR_UNKNOWN, "is not removed");
    doca_flow_model_set_faults(NULL);
    assert_doca_ok(update(pipe, entry));
    assert_doca_ok(doca_flow_pipe_remove_entry(0, 0, entry));
    testbed_process(0);
    assert_int_equal(seen.removals, 1);
    testbed_down();
}

static void refuses_by_chance(void **state)
{
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};
    unsigned refused = 0, full = 0;

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(64);
    doca_flow_model_seed(5);
    for (unsigned i = 0; i < 2000; i++) {
        faults((struct doca_flow_model_faults){.full_one_in = 20});
        if (add(pipe, 1, &seen, &entry) != DOCA_SUCCESS) {
            assert_true(strstr(doca_flow_model_reason(), "finds no place") != NULL);
            full++;
            continue;
        }
        faults((struct doca_flow_model_faults){.remove_one_in = 20});
        for (; doca_flow_pipe_remove_entry(0, 0, entry) != DOCA_SUCCESS; refused++)
            ;
        testbed_process(0);
    }
    assert_in_range(full, 60, 140);
    assert_in_range(refused, 60, 140);
    faults((struct doca_flow_model_faults){0});
    testbed_down();
}

static void updates_nothing_in_a_full_pipe(void **state)
{
    struct doca_flow_pipe_entry *entry, *other;
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    testbed_up("vnf,hws", 2);
    pipe = ports_pipe(2);
    faults((struct doca_flow_model_faults){.full_at_size = true});
    assert_doca_ok(add(pipe, 1, &seen, &entry));
    assert_doca_ok(update(pipe, entry));
    assert_doca_ok(add(pipe, 2, &seen, &other));
    assert_doca_refused(update(pipe, entry), DOCA_ERROR_FULL, "no free entry among 2");
    assert_doca_refused(add(pipe, 3, &seen, NULL), DOCA_ERROR_FULL, "pipe ports is full");
    assert_doca_ok(doca_flow_pipe_remove_entry(0, 0, other));
    testbed_process(0);
    assert_doca_ok(update(pipe, entry));
    faults((struct doca_flow_model_faults){0});
    testbed_down();
}

static void calls_back_what_goes_with_its_pipe(void **state)
{
    struct doca_flow_pipe *pipe;
    struct seen seen = {0};

    testbed_up("vnf,hws", 2);
    faults((struct doca_flow_model_faults){.destroy_callbacks = true});
    pipe = ports_pipe(64);
    assert_doca_ok(add(pipe, 1, &seen, NULL));
    assert_doca_ok(add(pipe, 2, &seen, NULL));
    testbed_process(0);
    doca_flow_pipe_destroy(pipe);
    assert_int_equal(seen.removals, 2);
    pipe = ports_pipe(64);
    assert_doca_ok(add(pipe, 1, &seen, NULL));
    doca_flow_port_pipes_flush(testbed_port[0]);
    assert_int_equal(seen.removals, 3);
    faults((struct doca_flow_model_faults){0});
    testbed_down();
}

/* Whatever their priorities: strict mode refuses them, and those that differ by one bit are two. */
static void takes_a_match_once_in_a_control_pipe(void **state)
{
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_fwd one = to_port(1);
    struct doca_flow_pipe *pipe;

    testbed_up("vnf,hws", 2);
    pipe = testbed_create(testbed_cfg(0, "control", DOCA_FLOW_PIPE_CONTROL, true), NULL, NULL);
    match.outer.l4_type_ext = mask.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.udp.l4_port.dst_port = DOCA_HTOBE16(53);
    mask.outer.udp.l4_port.dst_port = UINT16_MAX;
    doca_flow_model_set_strict(true);
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 3, &one, NULL,
                                                    &entry));
    assert_doca_refused(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 4, &one,
                                                         NULL, NULL),
                        DOCA_ERROR_NOT_SUPPORTED, "two entries of one match in control pipe control, with priorities 3 and 4");
    match.parser_meta.outer_l3_ok = 1;
    mask.parser_meta.outer_l3_ok = UINT8_MAX;
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 4, &one, NULL,
                                                    NULL));
    assert_doca_ok(doca_flow_pipe_remove_entry(0, 0, entry));
    match.parser_meta.outer_l3_ok = mask.parser_meta.outer_l3_ok = 0;
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 2, &one, NULL,
                                                    NULL)); /* the other one goes */
    doca_flow_model_set_strict(false);
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 4, &one, NULL,
                                                    NULL));
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_steered_by_the_environment),
        cmocka_unit_test(refuses_by_chance),
        cmocka_unit_test(updates_nothing_in_a_full_pipe),
        cmocka_unit_test(calls_back_what_goes_with_its_pipe),
        cmocka_unit_test(takes_a_match_once_in_a_control_pipe),
    };

    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
