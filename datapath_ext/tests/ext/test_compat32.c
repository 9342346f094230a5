/* SPDX-License-Identifier: Apache-2.0 */
/* The compat as DOCA 3.2 wants its calls, on stand-ins of that shape. */
#include "testbed.h"

static doca_error_t stand_in_add(uint16_t queue, struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                 uint8_t template, const struct doca_flow_actions *actions,
                                 const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd, uint32_t flags,
                                 void *context, struct doca_flow_pipe_entry **entry)
{
    return doca_flow_pipe_basic_add_entry(queue, pipe, match, template, actions, monitor, fwd, flags, context, entry);
}

static doca_error_t stand_in_update(uint16_t queue, struct doca_flow_pipe *pipe, uint8_t template,
                                    const struct doca_flow_actions *actions, const struct doca_flow_monitor *monitor,
                                    const struct doca_flow_fwd *fwd, uint32_t flags, struct doca_flow_pipe_entry *entry)
{
    return doca_flow_pipe_basic_update_entry(queue, pipe, template, actions, monitor, fwd, flags, entry);
}

/* The priority stands before the pipe. */
static doca_error_t stand_in_control(uint16_t queue, uint32_t priority, struct doca_flow_pipe *pipe,
                                     const struct doca_flow_match *match, const struct doca_flow_match *mask,
                                     const struct doca_flow_match_condition *condition,
                                     const struct doca_flow_actions *actions, const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_action_descs *descs, const struct doca_flow_monitor *monitor,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry)
{
    return doca_flow_pipe_control_add_entry(queue, pipe, match, mask, condition, actions, actions_mask, descs, monitor,
                                            priority, fwd, context, entry);
}

#define COMPAT_API 32
#define DOCA_FLOW_NO_WAIT 0
#define doca_flow_pipe_add_entry stand_in_add
#define doca_flow_pipe_update_entry stand_in_update
#define doca_flow_pipe_control_add_entry stand_in_control
#include "compat.c"

static void has_the_older_shape(void **state)
{
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_actions actions = {0}, *templates[] = {&actions};
    struct doca_flow_fwd fwd = to_port(1), next;
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_pipe *basic, *control;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_model_result result;
    struct frame frame;

    assert_true(!COMPAT_HAS_NAT64);
    testbed_up("vnf,hws", 2);
    cfg = testbed_cfg(0, "basic", DOCA_FLOW_PIPE_BASIC, false);
    memset(actions.outer.eth.dst_mac, 0xff, 6);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    basic = testbed_create(cfg, &fwd, NULL);
    actions.outer.eth.dst_mac[5] = 1;
    assert_doca_ok(compat_basic_add(basic, &match, 0, &actions, NULL, &entry));
    control = testbed_create(testbed_cfg(0, "control", DOCA_FLOW_PIPE_CONTROL, true), NULL, NULL);
    next = to_pipe(basic);
    assert_doca_ok(compat_control_add(control, &match, &mask, NULL, NULL, NULL, 3, &next, NULL, NULL));
    testbed_process(0);
    actions.outer.eth.dst_mac[5] = 2;
    assert_doca_ok(compat_basic_update(basic, 0, &actions, entry));
    testbed_process(0);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    result = testbed_send(0, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[5], 2);
    doca_flow_model_result_free(&result);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_older_shape),
    };

    return cmocka_run_group_tests_name("ext_compat32", tests, NULL, NULL);
}
