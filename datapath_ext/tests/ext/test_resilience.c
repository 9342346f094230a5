/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware that refuses updates, removals and additions, and calls back entries of pipes that go: the program lives with it. */
#include "checks.h"
#include "leftover.h"
#include "rig.h"

static json_t *with_slot(const char *name, const char *backend)
{
    json_t *json = rig_json(name);

    rig_put(json, "vips/0/slots/3", json_string(backend));
    return json;
}

static void builds_beside_what_is_not_updated(void **state)
{
    static const char *const names[] = {"l2-slots", "ipip", "siit"};

    for (unsigned n = 0; n < 3; n++) {
        unsigned replaced = 0;

        set_faults((struct doca_flow_model_faults){.updates_most = 1});
        rig_up(names[n]);
        check_packets();
        for (unsigned i = 0; i < 6; i++) {
            rig_load(with_slot(names[n], i % 2 ? "b2" : "b1"));
            replaced += rig.dataplane.replaced;
            check_packets();
            check_status();
        }
        assert_true(replaced >= 2);
        assert_int_equal(of_status("awaiting_removal"), 0);
        down_without_faults();
    }
}

static json_t *with_mac(const char *name, unsigned byte)
{
    json_t *json = rig_json(name);
    char mac[18];

    (void)snprintf(mac, sizeof(mac), "02:00:00:00:00:%02x", byte);
    rig_put(json, "backends/0/mac", json_string(mac));
    return json;
}

/* The second change of a backend: another tunnel or translation takes its place, and slots move to it. */
static void puts_another_target_beside(void **state)
{
    static const char *const names[] = {"ipip", "siit"};

    for (unsigned n = 0; n < 2; n++) {
        unsigned superseded = 0;

        set_faults((struct doca_flow_model_faults){.updates_most = 1});
        rig_up(names[n]);
        for (unsigned i = 0; i < 6; i++) {
            json_t *json = with_mac(names[n], 0x20 + i);

            if (i == 4) /* a service that is built in the same load */
                rig_put(json, "vips/0/select", json_string("spray"));
            rig_load(json);
            superseded += rig.dataplane.targets_superseded;
            check_packets();
            check_status();
        }
        assert_true(superseded >= 2);
        down_without_faults();
    }
}

/* Budgets that the program fills, in hardware that needs a free entry to update one. */
static void has_entries_to_spare(void **state)
{
    json_t *json = rig_json("ipip"), *full;
    json_int_t slots;

    rig_up_json(json_deep_copy(json));
    slots = of_status("used_of_budget/slots/0");
    full = json_pack("{s:i, s:I, s:I, s:I}", "vips", 8, "slots", slots, "backends", of_status("used_of_budget/backends/0"),
                     "counters", slots + COUNTERS_OWN);
    rig_down();
    rig_put(json, "budgets", full);
    set_faults((struct doca_flow_model_faults){.full_at_size = true, .updates_most = 1});
    rig_up_json(json_deep_copy(json));
    for (unsigned i = 0; i < 4; i++) {
        char mac[18];

        (void)snprintf(mac, sizeof(mac), "02:00:00:00:00:%02x", 0x20 + i);
        rig_put(json, "backends/0/mac", json_string(mac));
        rig_put(json, "vips/0/slots/0", json_string(i % 2 ? "b2" : "b1"));
        rig_load(json_deep_copy(json));
        check_packets();
        check_status();
    }
    json_decref(json);
    down_without_faults();
}

static json_t *with_select(const char *name, unsigned i)
{
    static const char *const selects[] = {"slots", "spray"};
    json_t *json = with_slot(name, i % 3 ? "b1" : "b2");

    rig_put(json, "vips/0/select", json_string(selects[i % 2]));
    return json;
}

static void works_on_while_removals_are_refused(void **state)
{
    enum { LOADS = 1000 };
    unsigned most = 0;

    rig_up("siit");
    set_faults((struct doca_flow_model_faults){.remove_one_in = 20});
    for (unsigned i = 0; i < LOADS; i++) {
        rig_load(with_select("siit", i));
        check_status();
        if (i % 20 == 0)
            check_packets();
        most = leftovers_entries(&rig.dataplane) > most ? leftovers_entries(&rig.dataplane) : most;
    }
    assert_true(most > 0 && most < 20); /* some of one load wait for the next one */
    assert_int_equal(rig.refused, 0);
    set_faults((struct doca_flow_model_faults){0});
    engine_retry_removals(&rig);
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    down_without_faults();
}

/* For long: what needs no removal works on, what does not fit is refused as a whole, and later all works again. */
static void keeps_what_it_has_when_nothing_is_removed(void **state)
{
    unsigned done = 0, refused = 0;

    rig_up("l2-slots");
    set_faults((struct doca_flow_model_faults){.remove_one_in = 1});
    for (unsigned i = 0; i < 60; i++) {
        json_t *json = i % 4 == 3 ? with_select("l2-slots", i / 4) : with_slot("l2-slots", i % 2 ? "b1" : "b2");

        if (i % 10 == 9)
            rig_put(json, "vips/1", NULL);
        if (try_load(json))
            done++;
        else
            refused++;
        assert_true(rig.consistent);
        check_status();
        check_packets();
    }
    assert_true(done > 0 && refused > 0);
    assert_true(of_status("awaiting_removal") > 0);
    assert_true(of_status("used_of_budget/slots/0") <= of_status("used_of_budget/slots/1"));
    set_faults((struct doca_flow_model_faults){0});
    rig_load(with_select("l2-slots", 0));
    rig_load(with_select("l2-slots", 1));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_status();
    check_packets();
    down_without_faults();
}

/* A service takes over by the upper level without a removal, by the lower one only with it: that is tried first, and undone
 * by additions alone. */
static void swaps_what_it_can_when_nothing_is_removed(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    select_of(json, 0, "spray");
    rig_load(json_deep_copy(json)); /* VIP 0 has the lower level now, the others the upper one */
    set_faults((struct doca_flow_model_faults){.remove_one_in = 1});
    select_of(json, 0, "slots");
    select_of(json, 1, "spray");
    assert_true(!try_load(json_deep_copy(json)));
    assert_true(rig.consistent);
    check_packets();
    check_status();
    select_of(json, 1, "slots");
    rig_load(json_deep_copy(json)); /* VIP 0 alone */
    assert_true(of_status("awaiting_removal") > 0);
    check_packets();
    check_status();
    select_of(json, 0, "spray");
    rig_refuse(json_deep_copy(json), "hardware refuses to remove the entry that the VIP had before");
    check_packets();
    rig_put(json, "vips/0", NULL);
    rig_refuse(json_deep_copy(json), "hardware refuses to remove an entry that the VIP had before");
    check_packets();
    set_faults((struct doca_flow_model_faults){0});
    rig_load(json);
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    check_status();
    down_without_faults();
}

/* Whatever hardware keeps for a while, no packet is counted twice, and none is lost. */
static void counts_each_packet_once(void **state)
{
    enum { LOADS = 200 };

    rig_up("l2-slots");
    set_faults((struct doca_flow_model_faults){.remove_one_in = 2});
    for (unsigned i = 0; i < LOADS; i++) {
        assert_int_equal(rig_counter("vips/0/packets"), i);
        (void)rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)i});
        (void)try_load(with_select("l2-slots", i));
    }
    down_without_faults();
}

/* What hardware keeps has the entries to spare, not those of the budget. */
static void keeps_entries_beside_a_full_budget(void **state)
{
    json_t *json = rig_json("l2-slots");
    json_int_t slots, swapped;

    rig_up_json(json_deep_copy(json));
    slots = of_status("used_of_budget/slots/0");
    swapped = (json_int_t)json_array_size(rig_at(json, "vips/0/slots"));
    rig_down();
    rig_put(json, "budgets/slots", json_integer(slots + swapped));
    rig_put(json, "budgets/counters", json_integer(slots + swapped + COUNTERS_OWN));
    rig_up_json(json_deep_copy(json));
    for (unsigned vip = 0; vip < 2; vip++) { /* to the lower level, from where a service takes over without a removal */
        select_of(json, vip, "spray");
        rig_load(json_deep_copy(json));
    }
    set_faults((struct doca_flow_model_faults){.remove_one_in = 1});
    select_of(json, 0, "slots");
    rig_load(json_deep_copy(json)); /* the old slots stay */
    assert_int_equal(of_status("used_of_budget/slots/0"), slots + swapped);
    rig_put(json, "vips/0/slots/0", json_string("b2"));
    rig_load(json_deep_copy(json));
    select_of(json, 1, "slots");
    rig_load(json_deep_copy(json));
    assert_true(of_status("used_of_budget/slots/0") > slots + swapped);
    check_packets();
    check_status();
    json_decref(json);
    down_without_faults();
}

/* Entries of pipes that are destroyed, while loads go on and at the end. */
static void ignores_callbacks_of_what_goes_with_its_pipe(void **state)
{
    set_faults((struct doca_flow_model_faults){.destroy_callbacks = true});
    rig_up("l2-slots");
    for (unsigned i = 0; i < 6; i++) {
        rig_load(with_select("l2-slots", i)); /* each destroys a selector */
        check_status();
        check_packets();
    }
    down_without_faults();
}

/* Two VIPs of any mode and selection; a third one comes and goes, and backends change. */
static json_t *random_program(unsigned *seed)
{
    static const char *const selects[] = {"slots", "client", "spray"}, *const forwards[] = {"l2", "ipip", "siit"};
    json_t *json = with_mac("siit", 0x20 + rig_random_below(seed, 4));

    rig_put(json, "tunnel", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:01", "ipv6", "2001:db8::1"));
    if (rig_random_below(seed, 3) == 0)
        rig_put(json, "backends/0/address", json_string("2001:db8::21"));
    for (unsigned vip = 0; vip < 2; vip++) {
        const char *forward = forwards[rig_random_below(seed, 3)], *select = selects[rig_random_below(seed, 4) % 3];

        rig_put_vip(json, vip, forward, select, 1U << rig_random_below(seed, 4), seed);
    }
    if (rig_random_below(seed, 2))
        rig_put(json, "vips/2", json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:[ss],s:s}", "name", "third", "family", "ipv6",
                                          "address", "2001:db8:1::1", "protocol", "udp", "port", 54, "select", "slots",
                                          "slots", "b1", "b2", "forward", rig_random_below(seed, 2) ? "l2" : "ipip"));
    return json;
}

static void fares_as_the_program_says(void **state)
{
    enum { LOADS = 600 };
    unsigned seed = 7, done = 0, degraded = 0;

    set_faults((struct doca_flow_model_faults){.destroy_callbacks = true});
    rig_up("siit");
    set_faults((struct doca_flow_model_faults){.updates_most = 1, .remove_one_in = 20, .full_one_in = 200,
                                             .destroy_callbacks = true});
    for (unsigned i = 0; i < LOADS; i++) {
        struct fault fault = {0};
        unsigned moved;

        if (i % 5 == 4)
            done += engine_drain(&rig, i % 2 ? "b1" : "b2", &moved, &fault);
        else
            done += try_load(random_program(&seed));
        degraded += !rig.consistent;
        check_status();
        if (rig.consistent)
            check_packets();
    }
    (void)fprintf(stderr, "%u of %d loads, %u times degraded\n", done, LOADS, degraded);
    assert_true(done > LOADS / 2);
    assert_true(degraded < LOADS / 20);
    set_faults((struct doca_flow_model_faults){.updates_most = 1});
    rig_load(random_program(&seed));
    rig_load(rig_json("siit"));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_status();
    check_packets();
    down_without_faults();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_beside_what_is_not_updated),
        cmocka_unit_test(puts_another_target_beside),
        cmocka_unit_test(has_entries_to_spare),
        cmocka_unit_test(works_on_while_removals_are_refused),
        cmocka_unit_test(keeps_what_it_has_when_nothing_is_removed),
        cmocka_unit_test(swaps_what_it_can_when_nothing_is_removed),
        cmocka_unit_test(counts_each_packet_once),
        cmocka_unit_test(keeps_entries_beside_a_full_budget),
        cmocka_unit_test(ignores_callbacks_of_what_goes_with_its_pipe),
        cmocka_unit_test(fares_as_the_program_says),
    };

    return cmocka_run_group_tests_name("ext_resilience", tests, NULL, NULL);
}
