/* SPDX-License-Identifier: Apache-2.0 */
/* siit while hardware refuses removals: whose answers are they, and what becomes of entries that it keeps. */
#include "checks.h"
#include "leftover.h"
#include "rig.h"

/* A VIP gives way to another one of the same backends, whose answers must not leave as the old one's. */
static void answers_come_from_the_vip_that_asked(void **state)
{
    enum { LOADS = 300 };
    unsigned done = 0, waited = 0;

    rig_up("siit");
    set_faults((struct doca_flow_model_faults){.remove_one_in = 3});
    for (unsigned i = 0; i < LOADS; i++) {
        json_t *json = rig_json("siit");

        rig_put(json, "vips/0/address", json_string(i % 2 ? "198.51.100.1" : "198.51.100.9"));
        rig_put(json, "vips/0/select", json_string(i % 3 ? "slots" : "spray"));
        done += try_load(json);
        waited += leftovers_entries(&rig.dataplane) > 0;
        if (rig.consistent)
            check_packets();
        check_status();
    }
    assert_true(done > LOADS / 2 && waited > LOADS / 4);
    set_faults((struct doca_flow_model_faults){0});
    rig_load(rig_json("siit"));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    down_without_faults();
}

static json_t *with_probe(const char *mac)
{
    json_t *json = rig_json("siit");

    rig_put(json, "probe", json_pack("{s:s,s:s}", "mac", mac, "ipv4", "192.0.2.9"));
    rig_put(json, "vips/0/probes", json_pack("{s:i,s:i}", "b1", 2049, "b2", 3000));
    return json;
}

/* Probes from another MAC address: answers go there, or the load is refused. */
static void answers_to_probes_go_where_probes_come_from(void **state)
{
    static const char *const macs[] = {"02:00:00:00:00:03", "02:00:00:00:00:04"};
    unsigned has = 0;

    rig_up_json(with_probe(macs[0]));
    set_faults((struct doca_flow_model_faults){.remove_one_in = 2});
    for (unsigned i = 1; i < 100; i++) {
        struct doca_flow_model_result result;
        struct frame frame;

        has = try_load(with_probe(macs[i % 2])) ? i % 2 : has;
        if (!rig.consistent)
            continue;
        rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::192.0.2.9", .src_port = 53,
                                              .dst_port = 9});
        result = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
        assert_int_equal(result.outputs[0].frame[5], 3 + has);
        doca_flow_model_result_free(&result);
    }
    down_without_faults();
}

/* VIPs of siit on one port, one for each text: the numbers of their slots' backends. NULL: there is no such VIP. */
static json_t *vips_of(const char *const slots[3])
{
    json_t *json = rig_json("siit");

    for (unsigned n = 3; n <= 4; n++) {
        json_t *backend = json_pack("{s:o, s:o, s:o}", "name", json_sprintf("b%u", n), "mac",
                                    json_sprintf("02:00:00:00:00:1%u", n), "address", json_sprintf("2001:db8::1%u", n));

        assert_int_equal(json_array_append_new(rig_at(json, "backends"), backend), 0);
    }
    assert_int_equal(json_array_clear(rig_at(json, "vips")), 0);
    for (unsigned v = 0; v < 3; v++) {
        json_t *list = json_array();

        if (slots[v] == NULL) {
            json_decref(list);
            continue;
        }
        for (const char *number = slots[v]; *number != '\0'; number++)
            assert_int_equal(json_array_append_new(list, json_sprintf("b%c", *number)), 0);
        assert_int_equal(json_array_append_new(
                             rig_at(json, "vips"),
                             json_pack("{s:o,s:s,s:o,s:s,s:i,s:s,s:o,s:s}", "name", json_sprintf("v%u", v + 1), "family",
                                       "ipv4", "address", json_sprintf("198.51.100.%u", v + 1), "protocol", "udp", "port",
                                       53, "select", "slots", "slots", list, "forward", "siit")), 0);
    }
    return json;
}

/* A load that is undone leaves entries for late answers at both levels. A third VIP gets the backend all the same. */
static void give_way(bool swap)
{
    rig_up_json(vips_of((const char *const[]){"44", "33", "12"}));
    rig_load(vips_of((const char *const[]){"44", "33", "22"}));
    set_faults((struct doca_flow_model_faults){.remove_one_in = 1});
    rig_refuse(vips_of((const char *const[]){NULL, "31", "22"}), "removing a VIP");
    assert_true(rig.consistent);
    set_faults((struct doca_flow_model_faults){0});
    if (swap) {
        json_t *json = vips_of((const char *const[]){"44", "33", "22"});

        select_of(json, 1, "spray"); /* the new service cannot let in the late answers of the old one */
        rig_load(json);
        check_packets();
    }
    rig_load(vips_of((const char *const[]){"41", "33", "22"}));
    check_packets();
    check_status();
    down_without_faults();
}

static void late_answers_give_way(void **state)
{
    give_way(false);
    give_way(true);
}

/* Translations that hardware keeps have the entries to spare too. */
static void keeps_translations_beside_a_full_budget(void **state)
{
    static const char *const slots[] = {"12", "13", "14"};

    for (unsigned i = 0; i < 3; i++) {
        json_t *json = vips_of((const char *const[]){slots[i], NULL, NULL});

        rig_put(json, "budgets/backends", json_integer(3));
        if (i == 0)
            rig_up_json(json);
        else
            rig_load(json);
        check_packets();
        check_status();
        set_faults((struct doca_flow_model_faults){.remove_one_in = 1});
    }
    assert_true(of_status("awaiting_removal") >= 2);
    down_without_faults();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_from_the_vip_that_asked),
        cmocka_unit_test(answers_to_probes_go_where_probes_come_from),
        cmocka_unit_test(late_answers_give_way),
        cmocka_unit_test(keeps_translations_beside_a_full_budget),
    };

    return cmocka_run_group_tests_name("ext_answers", tests, NULL, NULL);
}
