/* SPDX-License-Identifier: Apache-2.0 */
/* The program never waits for operations that it has not queued: the library would go on until its timeout. */
#include "rig.h"
#include "service.h"

static unsigned calls;
static bool hung;     /* hardware completes nothing */
static bool had_hung; /* what it had then may come first */

doca_error_t __real_doca_flow_entries_process(struct doca_flow_port *port, uint16_t queue, uint64_t timeout,
                                              uint32_t most);
doca_error_t __wrap_doca_flow_entries_process(struct doca_flow_port *port, uint16_t queue, uint64_t timeout,
                                              uint32_t most);

doca_error_t __wrap_doca_flow_entries_process(struct doca_flow_port *port, uint16_t queue, uint64_t timeout,
                                              uint32_t most)
{
    const struct flow_port *ports = rig.dataplane.flow.ports, *of = ports[PORT_IN].port == port ? &ports[PORT_IN]
                                                                                               : &ports[PORT_OUT];
    doca_error_t result;

    assert_true(of->port == port);
    assert_true(most > 0);
    assert_int_equal(most, of->outstanding);
    calls++;
    if (hung)
        return DOCA_SUCCESS;
    result = __real_doca_flow_entries_process(port, queue, timeout, most);
    assert_true(of->outstanding == 0 || had_hung); /* so one call was enough */
    return result;
}

static void waits_for_what_it_queued(void **state)
{
    static const char *const names[] = {"l2-slots", "l2-client", "l2-spray", "ipip", "siit"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *json = rig_json(names[i]), *slots = json_array();

        for (unsigned slot = 0; slot < 1024; slot++) /* more than the queue takes at once */
            assert_int_equal(json_array_append_new(slots, json_string("b1")), 0);
        rig_put(json, "budgets/slots", json_integer(4096));
        rig_put(json, "budgets/counters", json_integer(4112));
        rig_put(json, "vips/0/slots", slots);
        calls = 0;
        rig_up_json(json);
        assert_true(calls > 0);
        json = json_deep_copy(rig.program->source);
        rig_put(json, "vips/0/slots", json_pack("[s, s]", "b1", "b1"));
        rig_load(json);
        rig_down();
    }
}

/* A removal that does not come back is told, and not waited for ever after. */
static void waits_no_more_for_what_is_lost(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    rig_put(json, "vips/1", NULL);
    hung = had_hung = true;
    rig_refuse(json_deep_copy(json), "removing a VIP does not complete");
    hung = false;
    assert_int_equal(rig.dataplane.flow.ports[PORT_IN].outstanding, 0);
    rig_load(rig_json("l2-slots")); /* which undoes it: the entry may be gone all the same */
    for (size_t i = 0; i < rig.dataplane.service_count; i++)
        assert_true(rig.dataplane.services[i]->attached && rig.dataplane.services[i]->entry != NULL);
    rig_load(json);
    assert_int_equal(rig.dataplane.flow.ports[PORT_IN].outstanding, 0);
    assert_int_equal(rig.dataplane.service_count, 2);
    rig_down();
    had_hung = false;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_what_it_queued),
        cmocka_unit_test(waits_no_more_for_what_is_lost),
    };

    return cmocka_run_group_tests_name("ext_waits", tests, NULL, NULL);
}
