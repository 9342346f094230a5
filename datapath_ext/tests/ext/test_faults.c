/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware that refuses: each call of a load fails once, and then, from each call on, all do. The linker puts the
 * functions here in place of the compat's and of pipe_create. */
#include "change.h"
#include "report.h"
#include "rig.h"
#include "wraps.h"

static unsigned countdown; /* calls until one fails; 0: none does */
static bool lasting;       /* all after it fail too */
static bool failed;

static bool fails(void)
{
    if (failed && lasting)
        return true;
    if (countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    return true;
}

/* An operation that was accepted and turns out badly when it completes. */
bool __wrap_flow_wait(struct flow_port *port, struct fault *fault)
{
    bool done = __real_flow_wait(port, fault);

    return fails() ? fault_set(fault, "hardware refused an operation of port %s", port->name) : done;
}

bool __wrap_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault)
{
    return fails() ? fault_set(fault, "creating pipe %s: refused by the test", spec->name)
                   : __real_pipe_create(port, spec, pipe, fault);
}

doca_error_t __wrap_compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_compat_basic_add(pipe, match, template, actions, context, entry);
}

doca_error_t __wrap_compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry)
{
    return fails() ? DOCA_ERROR_AGAIN : __real_compat_basic_update(pipe, template, actions, entry);
}

doca_error_t __wrap_compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER
                   : __real_compat_control_add(pipe, match, mask, actions, actions_mask, monitor, priority, fwd, context,
                                             entry);
}

doca_error_t __wrap_compat_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_compat_hash_add(pipe, index, actions, context, entry);
}

doca_error_t __wrap_compat_remove(struct doca_flow_pipe_entry *entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_compat_remove(entry);
}

static void each_refusal_is_undone(void **state)
{
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        rig_up_json(change_before());
        change_check_before();
        countdown = i;
        lasting = failed = false;
        done = change_load(change_after());
        countdown = 0;
        if (done && failed) /* an update that was worth a second try */
            done = false;
        else if (!done) {
            assert_true(failed && rig.consistent);
            change_check_before();
            assert_true(change_load(change_after()));
        }
        change_check_after();
        assert_true(change_load(change_before()));
        change_check_before();
        rig_down();
        if (done)
            (void)fprintf(stderr, "%u calls\n", i - 1);
    }
}

/* If undoing fails too, the engine says so, no crash, and a load that succeeds puts everything right. */
static void a_lasting_refusal_is_told(void **state)
{
    bool done = false;
    unsigned inconsistent = 0;

    for (unsigned i = 1; !done; i++) {
        rig_up_json(change_before());
        countdown = i;
        lasting = true;
        failed = false;
        done = change_load(change_after());
        inconsistent += !rig.consistent;
        countdown = 0;
        failed = false;
        if (!done) {
            json_decref(report_status(&rig));
            assert_true(change_load(change_after()));
        }
        assert_true(rig.consistent);
        change_check_after();
        assert_true(change_load(change_before()));
        change_check_before();
        rig_down();
    }
    assert_true(inconsistent > 0);
}

static void a_refusal_at_the_start_leaves_nothing_open(void **state)
{
    struct fault fault = {0};
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        json_t *json = change_before();
        struct program *program = program_read(json, &fault);

        json_decref(json);
        countdown = i;
        lasting = i % 2 == 0;
        failed = false;
        done = engine_open(&rig, program, &fault);
        assert_true(done || fault.text[0] != '\0');
        fault.text[0] = '\0';
    }
    countdown = 0;
    change_check_before();
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_is_undone),
        cmocka_unit_test(a_lasting_refusal_is_told),
        cmocka_unit_test(a_refusal_at_the_start_leaves_nothing_open),
    };

    return cmocka_run_group_tests_name("ext_faults", tests, NULL, NULL);
}
