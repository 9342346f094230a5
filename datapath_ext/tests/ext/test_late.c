/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware that accepts an operation and refuses it when it completes: what was to be added is not there, what was to be
 * updated is as it was. The linker puts the functions here in place of the compat's. */
#include "change.h"
#include "leftover.h"
#include "removal.h"
#include "report.h"
#include "rig.h"
#include "wraps.h"

enum { FAKES_MAX = 64 };

static unsigned countdown; /* additions and updates until one is refused late; 0: none is */
static bool late;          /* it was refused: the operation that is queued next will not succeed */
static bool silent;        /* the removal that is queued next is of an entry that is not there */
static bool stuck;         /* from then on, everything is refused at once */
static bool lasting;
static char fakes[FAKES_MAX]; /* entries that are not there */
static unsigned fake_count;
static void (*before_removal)(void), (*after_update)(void);
static unsigned refusals; /* removals that are refused next */
static unsigned late_removals; /* removals until one is accepted and refused when it completes; 0: none is */
static unsigned kept;          /* that were */

static bool is_fake(const struct doca_flow_pipe_entry *entry)
{
    const char *at = (const char *)entry;

    return at >= fakes && at < fakes + FAKES_MAX;
}

static bool is_refused_late(void)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    late = true;
    stuck = lasting;
    return true;
}

static doca_error_t hand_out_fake(struct doca_flow_pipe_entry **entry)
{
    assert_true(fake_count < FAKES_MAX);
    if (entry != NULL)
        *entry = (struct doca_flow_pipe_entry *)(void *)&fakes[fake_count++];
    return DOCA_SUCCESS;
}

bool __wrap_flow_queued(struct flow_port *port, doca_error_t result, struct fault *fault, const char *what)
{
    if (result == DOCA_SUCCESS && late) {
        port->failed++;
        late = false;
        return true;
    }
    return __real_flow_queued(port, result, fault, what);
}

void __wrap_flow_queued_removal(struct flow_port *port)
{
    if (!silent)
        __real_flow_queued_removal(port);
    silent = false;
}

doca_error_t __wrap_compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry)
{
    if (stuck)
        return DOCA_ERROR_DRIVER;
    return is_refused_late() ? hand_out_fake(entry)
                             : __real_compat_basic_add(pipe, match, template, actions, context, entry);
}

doca_error_t __wrap_compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry)
{
    void (*then)(void) = after_update;
    doca_error_t result;

    assert_true(!is_fake(entry));
    if (stuck)
        return DOCA_ERROR_DRIVER;
    if (is_refused_late())
        return DOCA_SUCCESS;
    result = __real_compat_basic_update(pipe, template, actions, entry);
    after_update = NULL;
    if (then != NULL)
        then();
    return result;
}

doca_error_t __wrap_compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry)
{
    if (stuck)
        return DOCA_ERROR_DRIVER;
    return is_refused_late() ? hand_out_fake(entry)
                             : __real_compat_control_add(pipe, match, mask, actions, actions_mask, monitor, priority, fwd,
                                                       context, entry);
}

/* As if hardware had called back. */
static bool reported(const struct doca_flow_pipe_entry *entry, bool refused)
{
    bool known = false;

    for (unsigned i = 0; i < PORTS; i++)
        known = known || (rig.dataplane.flow.ports[i].removals != NULL &&
                          removals_report(rig.dataplane.flow.ports[i].removals, entry, refused));
    return known;
}

doca_error_t __wrap_compat_remove(struct doca_flow_pipe_entry *entry)
{
    void (*first)(void) = before_removal;

    before_removal = NULL;
    if (first != NULL)
        first();
    if (refusals > 0) {
        refusals--;
        return DOCA_ERROR_DRIVER;
    }
    if (stuck)
        return DOCA_ERROR_DRIVER;
    if (late_removals > 0 && --late_removals == 0 && !is_fake(entry)) {
        kept += reported(entry, true);
        silent = true;
        return DOCA_SUCCESS;
    }
    silent = is_fake(entry) && reported(entry, false);
    return silent ? DOCA_SUCCESS : __real_compat_remove(entry);
}

bool __wrap_count_entry(struct doca_flow_pipe_entry *entry, uint64_t *packets, uint64_t *bytes)
{
    if (!is_fake(entry))
        return __real_count_entry(entry, packets, bytes);
    *packets = *bytes = 0;
    return true;
}

static void start(unsigned number, bool lasts)
{
    rig_up_json(change_before());
    countdown = number;
    lasting = lasts;
    fake_count = 0;
}

static void each_late_refusal_is_undone(void **state)
{
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        start(i, false);
        done = change_load(change_after());
        countdown = 0;
        if (!done) {
            assert_true(rig.consistent);
            change_check_before();
            assert_true(change_load(change_after()));
        }
        change_check_after();
        assert_true(change_load(change_before()));
        change_check_before();
        rig_down();
        if (done)
            (void)fprintf(stderr, "%u operations\n", i - 1);
    }
}

/* What hardware has is not known after that, so the next load takes nothing for granted. */
static void a_late_refusal_that_cannot_be_undone_is_put_right(void **state)
{
    bool done = false;
    unsigned inconsistent = 0;

    for (unsigned i = 1; !done; i++)
        for (unsigned again = 0; again < 2; again++) {
            start(i, true);
            done = change_load(change_after());
            stuck = false;
            countdown = 0;
            inconsistent += !rig.consistent;
            assert_true(change_load(again ? change_after() : change_before()));
            assert_true(rig.consistent && rig.retained == NULL);
            if (again)
                change_check_after();
            else
                change_check_before();
            rig_down();
        }
    assert_true(inconsistent > 0);
}

/* However often it is tried: only programs that a service still is of are kept. */
static void trying_again_keeps_nothing(void **state)
{
    unsigned held = 0, number = 1;

    for (start(number, true); !change_load(change_after()) && rig.consistent; start(++number, true)) {
        stuck = false;
        rig_down();
    }
    for (unsigned i = 1; i < 20; i++)
        assert_true(!change_load(change_after()));
    assert_true(!rig.consistent);
    for (const struct program *program = rig.retained; program != NULL; program = program->next)
        held++;
    assert_true(held <= rig.dataplane.service_count);
    stuck = false;
    assert_true(change_load(change_after()));
    assert_true(rig.retained == NULL);
    change_check_after();
    rig_down();
}

static void a_late_refusal_at_the_start_leaves_nothing_open(void **state)
{
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        struct fault fault = {0};
        json_t *json = change_before();
        struct program *program = program_read(json, &fault);

        assert_true(program != NULL);
        json_decref(json);
        countdown = i;
        lasting = false;
        fake_count = 0;
        done = engine_open(&rig, program, &fault);
        assert_true(done || fault.text[0] != '\0');
    }
    countdown = 0;
    change_check_before();
    rig_down();
}

/* Its callback has the entry, so its handle is kept and tried again. */
static void keeps_what_is_not_removed_when_it_completes(void **state)
{
    unsigned waited = 0, number = 0;

    do {
        start(0, false);
        late_removals = ++number;
        kept = 0;
        assert_true(change_load(change_after()));
        change_check_after();
        waited += leftovers_entries(&rig.dataplane);
        late_removals = 0;
        assert_true(change_load(change_before()));
        assert_int_equal(leftovers_entries(&rig.dataplane), 0);
        change_check_before();
        rig_down();
    } while (kept > 0);
    assert_true(number > 5 && waited > 0);
}

static void send_one(void)
{
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .protocol = 6}), 0x11);
}

static json_t *chosen_by(const char *select)
{
    json_t *json = change_before();

    rig_put(json, "vips/1/select", json_string(select));
    rig_put(json, "vips/1/slots", json_pack("[s,s]", "b1", "b1"));
    return json;
}

/* A service that takes over is there beside the old one for a moment; whichever stays, what both counted does. Hardware
 * refuses to remove the other one's entry: of the upper level for good, then the swap is undone. */
static void counts_what_comes_during_a_swap(void **state)
{
    rig_up_json(chosen_by("slots"));
    before_removal = send_one;
    refusals = 3;
    assert_true(!change_load(chosen_by("spray")));
    assert_true(before_removal == NULL && rig.consistent);
    rig_load(chosen_by("spray"));
    send_one();
    before_removal = send_one;
    refusals = 1;
    rig_load(chosen_by("slots"));
    assert_true(before_removal == NULL);
    send_one();
    assert_int_equal(rig_counter("vips/1/packets"), 4);
    rig_down();
}

static void ask_and_answer(void)
{
    struct doca_flow_model_result result;
    struct frame frame;

    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1"});
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].frame[53], 0x21); /* of the new address */
    doca_flow_model_result_free(&result);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::21", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
}

/* A backend with a new address is asked there at once, and its answer must not come too early. */
static void lets_answers_in_before_it_asks(void **state)
{
    json_t *json = change_before();

    rig_up_json(change_before());
    rig_put(json, "backends/0/address", json_string("2001:db8::21"));
    after_update = ask_and_answer;
    rig_load(json);
    assert_true(after_update == NULL);
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_late_refusal_is_undone),
        cmocka_unit_test(a_late_refusal_that_cannot_be_undone_is_put_right),
        cmocka_unit_test(trying_again_keeps_nothing),
        cmocka_unit_test(a_late_refusal_at_the_start_leaves_nothing_open),
        cmocka_unit_test(keeps_what_is_not_removed_when_it_completes),
        cmocka_unit_test(counts_what_comes_during_a_swap),
        cmocka_unit_test(lets_answers_in_before_it_asks),
    };

    return cmocka_run_group_tests_name("ext_late", tests, NULL, NULL);
}
