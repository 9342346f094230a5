/* SPDX-License-Identifier: Apache-2.0 */
/* All examples, built and used while the model refuses whatever no public program or document proves. */
#include "rig.h"

static void needs_nothing_unproven(void **state)
{
    static const char *const names[] = {"l2-slots", "l2-client", "l2-spray", "ipip", "siit"};

    doca_flow_model_set_strict(true);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct frame frame;

        rig_up(names[i]);
        rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2});
        rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
        if (rig.program->vips[1].address.family == 6) {
            rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1",
                                                  .protocol = rig.program->vips[1].protocol, .src_port = 2});
            rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
        }
        assert_int_equal(doca_flow_model_unproven(), 0);
        rig_down();
    }
    doca_flow_model_set_strict(false);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_nothing_unproven),
    };

    return cmocka_run_group_tests_name("ext_strict", tests, NULL, NULL);
}
