/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that hardware cannot take: a reason that names the VIP, and the running program goes on as it was. */
#include "report.h"
#include "rig.h"

static char *dump(void)
{
    json_t *json = report_dump(&rig);
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    return text;
}

/* Refused; hardware, packets and the program are as before. */
static void refuse(json_t *json, const char *text)
{
    char *before = dump(), *after;

    rig_refuse(json, text);
    after = dump();
    if (strcmp(before, after) != 0)
        (void)fprintf(stderr, "before %s\nafter  %s\n", before, after);
    assert_true(strcmp(before, after) == 0);
    free(before);
    free(after);
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2}), 0x12);
    assert_int_equal(rig_missed(), 0);
}

static json_t *tight(const char *budget, int value)
{
    json_t *json = rig_json("l2-slots");
    char path[64];

    (void)snprintf(path, sizeof(path), "budgets/%s", budget);
    rig_put(json, path, json_integer(value));
    return json;
}

static void refuses_what_needs_a_restart(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    rig_put(json, "ports/out", json_string("elsewhere"));
    refuse(json, "$.ports: found ext-in and elsewhere, expected ext-in and ext-out");
    refuse(tight("counters", 400), "$.budgets: found other ones than at the start");
    assert_int_equal(rig.refused, 2);
    rig_down();
}

static void refuses_without_entries(void **state)
{
    json_t *json = tight("slots", 30);

    rig_up_json(tight("slots", 30));
    rig_put(json, "vips/2/select", json_string("spray"));
    refuse(json, "vip dns6: out of entries: needs 32 slots with those that it replaces, $.budgets.slots is 30");
    rig_down();
}

static void refuses_without_counters(void **state)
{
    json_t *json = tight("counters", 43);

    rig_up_json(tight("counters", 43)); /* 16 + 24, and room for three more */
    rig_put(json, "vips/1/port", json_integer(54));
    refuse(json, "vip dns4-tcp: out of counters: needs 48 with those that it replaces, $.budgets.counters is 43");
    rig_down();
}

static void refuses_without_room_for_backends(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_put(json, "budgets/backends", json_integer(1));
    rig_put(json, "tunnel", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:01", "ipv4", "192.0.2.1"));
    rig_up_json(json_deep_copy(json));
    rig_put(json, "vips/1/forward", json_string("ipip"));
    rig_put(json, "vips/0/slots/1", json_string("b1"));
    refuse(json, "vip dns4-tcp: backend b2: out of entries for backends: $.budgets.backends is 1");

    json = rig_json("l2-slots");
    rig_down();
    rig_put(json, "budgets/backends", json_integer(0));
    rig_put(json, "tunnel", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:01", "ipv4", "192.0.2.1"));
    rig_up_json(json_deep_copy(json));
    rig_put(json, "vips/2/forward", json_string("ipip"));
    refuse(json, "vip dns6: $.budgets.backends: found 0, expected one or more for tunnels");
    rig_down();
}

static void refuses_bad_programs(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    rig_put(json, "version", json_integer(2));
    refuse(json, "$.version: found 2, expected 1");
    json = rig_json("l2-slots");
    rig_put(json, "vips/0/slots/7", NULL);
    refuse(json, "vip dns4: $.vips[0].slots: found 7 slots");
    json = rig_json("l2-slots");
    rig_put(json, "vips/0/address", json_string("2001:db8::1"));
    refuse(json, "vip dns4: $.vips[0].address: found \"2001:db8::1\", expected an IPv4 address");
    rig_down();
}

/* What hardware itself refuses, on the way, is undone: here it has fewer counters than the program may use. */
static void undoes_what_hardware_refuses(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    rig.dataplane.budgets.counters = 1000; /* the port got fewer */
    rig.dataplane.budgets.slots = 1000;
    rig_put(json, "budgets/counters", json_integer(1000));
    rig_put(json, "budgets/slots", json_integer(1000));
    rig_put(json, "budgets/vips", json_integer(16));
    rig.dataplane.budgets.vips = 16;
    rig_put(json, "vips/0/slots/1", json_string("b1"));
    for (unsigned i = 3; i < 15; i++) {
        char path[16], name[16], address[32];
        json_t *slots = json_array();

        (void)snprintf(path, sizeof(path), "vips/%u", i);
        (void)snprintf(name, sizeof(name), "more%u", i);
        (void)snprintf(address, sizeof(address), "198.51.100.%u", i);
        for (unsigned slot = 0; slot < 64; slot++)
            assert_int_equal(json_array_append_new(slots, json_string("b1")), 0);
        rig_put(json, path, json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:o,s:s}", "name", name, "family", "ipv4", "address",
                                      address, "protocol", "udp", "port", 53, "select", "spray", "slots", slots,
                                      "forward", "l2"));
    }
    {
        struct fault fault = {0};
        struct program *program = program_read(json, &fault);
        char *before = dump(), *after;

        assert_true(program != NULL);
        rig.program->budgets = program->budgets; /* as if it had always been so */
        assert_true(!engine_load(&rig, program, &fault));
        (void)fprintf(stderr, "%s\n", fault.text);
        assert_true(strstr(fault.text, ": adding a slot: DOCA_ERROR_") != NULL);
        assert_true(rig.consistent);
        after = dump();
        assert_true(strcmp(before, after) == 0);
        free(before);
        free(after);
        json_decref(json);
    }
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2}), 0x12);
    assert_int_equal(rig_missed(), 0);
    rig_down();
}

static void refuses_to_start_without_devices(void **state)
{
    json_t *json = rig_json("l2-slots");
    struct fault fault = {0};
    struct program *program;
    struct engine engine;

    rig_put(json, "ports/in", json_string("no-such-device"));
    program = program_read(json, &fault);
    assert_true(program != NULL);
    assert_true(!engine_open(&engine, program, &fault));
    assert_true(strstr(fault.text, "port no-such-device: there is no device of this name") == fault.text);
    json_decref(json);
}

/* However often a load is tried while a port is missing, none of them is kept. */
static void keeps_nothing_of_what_a_missing_port_refused(void **state)
{
    rig_up("l2-slots");
    rig.present[PORT_OUT] = false;
    rig_refuse(rig_json("l2-slots"), "port ext-out is gone: vip dns4 and all others are not served; a restart opens it");
    assert_true(rig.retained == NULL);
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_needs_a_restart),
        cmocka_unit_test(refuses_without_entries),
        cmocka_unit_test(refuses_without_counters),
        cmocka_unit_test(refuses_without_room_for_backends),
        cmocka_unit_test(refuses_bad_programs),
        cmocka_unit_test(undoes_what_hardware_refuses),
        cmocka_unit_test(refuses_to_start_without_devices),
        cmocka_unit_test(keeps_nothing_of_what_a_missing_port_refused),
    };

    return cmocka_run_group_tests_name("ext_refuse", tests, NULL, NULL);
}
