/* Hardware that refuses updates, removals and additions, and calls back entries of pipes that go: the program lives with it,
 * packets fare as the program says, and what `status` says is used is what the pipes hold. */
#include "rig.h"

#include "leftover.h"
#include "modes/siit_answers.h"
#include "report.h"

static void hardware(struct doca_flow_model_faults faults)
{
    doca_flow_model_set_faults(&faults);
}

static unsigned entries_in(struct doca_flow_pipe *pipe)
{
    unsigned entries = 0;
    char *text = NULL, *at;
    size_t size;
    FILE *file;

    if (pipe == NULL)
        return 0;
    file = open_memstream(&text, &size);
    assert_true(file != NULL);
    doca_flow_pipe_dump(pipe, file);
    (void)fclose(file);
    at = strstr(text, " entries, key"); /* "..., 3 of 8 entries, key of ..." */
    assert_true(at != NULL);
    while (at > text && strncmp(at, "root, ", 6) != 0)
        at--;
    assert_int_equal(sscanf(at, "root, %u of", &entries), 1);
    free(text);
    return entries;
}

static json_int_t of_status(const char *path)
{
    json_t *status = report_status(&rig);
    json_int_t value;

    assert_true(json_is_integer(rig_at(status, path)));
    value = json_integer_value(rig_at(status, path));
    json_decref(status);
    return value;
}

/* What is used is what is there, however it came there. */
static void check_status(void)
{
    unsigned slots = 0, targets = 0;

    for (size_t i = 0; i < FORWARD_MODE_COUNT; i++) {
        const struct forward_pipes *pipes = &rig.dataplane.forwarding[i];

        slots += entries_in(pipes->slots);
        if (strcmp(forward_modes[i]->name, "ipip") == 0)
            targets += entries_in(pipes->pipes[0]) + entries_in(pipes->pipes[1]); /* encap4, encap6 */
        if (strcmp(forward_modes[i]->name, "siit") == 0)
            targets += entries_in(pipes->pipes[SIIT_TRANSLATED]);
    }
    assert_int_equal(of_status("used_of_budget/slots/0"), slots);
    assert_int_equal(of_status("used_of_budget/counters/0"), slots + COUNTERS_OWN);
    assert_int_equal(of_status("used_of_budget/backends/0"), targets);
    assert_int_equal(rig.dataplane.flow.ports[PORT_IN].outstanding, 0);
    assert_int_equal(rig.dataplane.flow.ports[PORT_OUT].outstanding, 0);
}

static const char *client_of(const struct vip *vip)
{
    return vip->address.family == 4 ? "192.0.2.9" : "2001:db8::9";
}

static void address_text(const struct address *address, char *text, size_t size)
{
    const uint8_t *b = address->bytes;

    if (address->family == 4)
        (void)snprintf(text, size, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
    else
        (void)snprintf(text, size, "%x:%x:%x:%x:%x:%x:%x:%x", b[0] << 8 | b[1], b[2] << 8 | b[3], b[4] << 8 | b[5],
                       b[6] << 8 | b[7], b[8] << 8 | b[9], b[10] << 8 | b[11], b[12] << 8 | b[13], b[14] << 8 | b[15]);
}

/* The backend's answer leaves as the VIP's. */
static void check_answer(const struct vip *vip, const struct backend *backend)
{
    struct doca_flow_model_result result;
    struct frame frame;
    char from[64];

    address_text(&backend->address, from, sizeof(from));
    rig_frame(&frame, (struct rig_packet){.src = from, .dst = "64:ff9b::192.0.2.9", .protocol = vip->protocol,
                                          .src_port = vip->port, .dst_port = 9999});
    result = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    assert_true(memcmp(result.outputs[0].frame + 26, vip->address.bytes, 4) == 0);
    doca_flow_model_result_free(&result);
}

/* Each slot of each VIP that chooses by the source port, and any packet of the others. */
static void check_packets(void)
{
    for (size_t v = 0; v < rig.program->vip_count; v++) {
        const struct vip *vip = &rig.program->vips[v];
        char to[64];

        address_text(&vip->address, to, sizeof(to));
        for (unsigned slot = 0; slot < vip->slot_count; slot++) {
            const struct backend *backend = &rig.program->backends[vip->slots[slot]];
            unsigned found = rig_backend((struct rig_packet){.src = client_of(vip), .dst = to, .protocol = vip->protocol,
                                                             .src_port = (uint16_t)(2 * slot), .dst_port = vip->port});

            if (strcmp(vip->select->name, "slots") == 0)
                assert_int_equal(found, backend->mac[5]);
            if (strcmp(vip->forward->name, "siit") == 0)
                check_answer(vip, backend);
        }
    }
    assert_int_equal(rig_missed(), 0);
}

static bool load(json_t *json)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);
    bool done;

    if (program == NULL)
        fail_msg("%s", fault.text);
    json_decref(json);
    done = engine_load(&rig, program, &fault);
    assert_true(done == (fault.text[0] == '\0'));
    return done;
}

static void down(void)
{
    rig_down();
    hardware((struct doca_flow_model_faults){0});
}

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

        hardware((struct doca_flow_model_faults){.updates_most = 1});
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
        down();
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

        hardware((struct doca_flow_model_faults){.updates_most = 1});
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
        down();
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
    hardware((struct doca_flow_model_faults){.full_at_size = true, .updates_most = 1});
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
    down();
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
    hardware((struct doca_flow_model_faults){.remove_one_in = 20});
    for (unsigned i = 0; i < LOADS; i++) {
        rig_load(with_select("siit", i));
        check_status();
        if (i % 20 == 0)
            check_packets();
        most = leftovers_entries(&rig.dataplane) > most ? leftovers_entries(&rig.dataplane) : most;
    }
    assert_true(most > 0 && most < 20); /* some of one load wait for the next one */
    assert_int_equal(rig.refused, 0);
    hardware((struct doca_flow_model_faults){0});
    engine_retry_removals(&rig);
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    down();
}

/* For long: what needs no removal works on, what does not fit is refused as a whole, and later all works again. */
static void keeps_what_it_has_when_nothing_is_removed(void **state)
{
    unsigned done = 0, refused = 0;

    rig_up("l2-slots");
    hardware((struct doca_flow_model_faults){.remove_one_in = 1});
    for (unsigned i = 0; i < 60; i++) {
        json_t *json = i % 4 == 3 ? with_select("l2-slots", i / 4) : with_slot("l2-slots", i % 2 ? "b1" : "b2");

        if (i % 10 == 9)
            rig_put(json, "vips/1", NULL);
        if (load(json))
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
    hardware((struct doca_flow_model_faults){0});
    rig_load(with_select("l2-slots", 0));
    rig_load(with_select("l2-slots", 1));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_status();
    check_packets();
    down();
}

static void select_of(json_t *json, unsigned vip, const char *select)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "vips/%u/select", vip);
    rig_put(json, path, json_string(select));
}

/* A service takes over by the upper level without a removal, by the lower one only with it: that is tried first, and undone
 * by additions alone. */
static void swaps_what_it_can_when_nothing_is_removed(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    select_of(json, 0, "spray");
    rig_load(json_deep_copy(json)); /* VIP 0 has the lower level now, the others the upper one */
    hardware((struct doca_flow_model_faults){.remove_one_in = 1});
    select_of(json, 0, "slots");
    select_of(json, 1, "spray");
    assert_true(!load(json_deep_copy(json)));
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
    hardware((struct doca_flow_model_faults){0});
    rig_load(json);
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    check_status();
    down();
}

/* A VIP gives way to another one of the same backends, whose answers must not leave as the old one's. */
static void answers_come_from_the_vip_that_asked(void **state)
{
    enum { LOADS = 300 };
    unsigned done = 0, waited = 0;

    rig_up("siit");
    hardware((struct doca_flow_model_faults){.remove_one_in = 3});
    for (unsigned i = 0; i < LOADS; i++) {
        json_t *json = rig_json("siit");

        rig_put(json, "vips/0/address", json_string(i % 2 ? "198.51.100.1" : "198.51.100.9"));
        rig_put(json, "vips/0/select", json_string(i % 3 ? "slots" : "spray"));
        done += load(json);
        waited += leftovers_entries(&rig.dataplane) > 0;
        if (rig.consistent)
            check_packets();
        check_status();
    }
    assert_true(done > LOADS / 2 && waited > LOADS / 4);
    hardware((struct doca_flow_model_faults){0});
    rig_load(rig_json("siit"));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_packets();
    down();
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
    hardware((struct doca_flow_model_faults){.remove_one_in = 2});
    for (unsigned i = 1; i < 100; i++) {
        struct doca_flow_model_result result;
        struct frame frame;

        has = load(with_probe(macs[i % 2])) ? i % 2 : has;
        if (!rig.consistent)
            continue;
        rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::192.0.2.9", .src_port = 53,
                                              .dst_port = 9});
        result = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
        assert_int_equal(result.outputs[0].frame[5], 3 + has);
        doca_flow_model_result_free(&result);
    }
    down();
}

/* Whatever hardware keeps for a while, no packet is counted twice, and none is lost. */
static void counts_each_packet_once(void **state)
{
    enum { LOADS = 200 };

    rig_up("l2-slots");
    hardware((struct doca_flow_model_faults){.remove_one_in = 2});
    for (unsigned i = 0; i < LOADS; i++) {
        assert_int_equal(rig_counter("vips/0/packets"), i);
        (void)rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)i});
        (void)load(with_select("l2-slots", i));
    }
    down();
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
    hardware((struct doca_flow_model_faults){.remove_one_in = 1});
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
    down();
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
    hardware((struct doca_flow_model_faults){.remove_one_in = 1});
    rig_refuse(vips_of((const char *const[]){NULL, "31", "22"}), "removing a VIP");
    assert_true(rig.consistent);
    hardware((struct doca_flow_model_faults){0});
    if (swap) {
        json_t *json = vips_of((const char *const[]){"44", "33", "22"});

        select_of(json, 1, "spray"); /* the new service cannot let in the late answers of the old one */
        rig_load(json);
        check_packets();
    }
    rig_load(vips_of((const char *const[]){"41", "33", "22"}));
    check_packets();
    check_status();
    down();
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
        hardware((struct doca_flow_model_faults){.remove_one_in = 1});
    }
    assert_true(of_status("awaiting_removal") >= 2);
    down();
}

/* Entries of pipes that are destroyed, while loads go on and at the end. */
static void ignores_callbacks_of_what_goes_with_its_pipe(void **state)
{
    hardware((struct doca_flow_model_faults){.destroy_callbacks = true});
    rig_up("l2-slots");
    for (unsigned i = 0; i < 6; i++) {
        rig_load(with_select("l2-slots", i)); /* each destroys a selector */
        check_status();
        check_packets();
    }
    down();
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

    hardware((struct doca_flow_model_faults){.destroy_callbacks = true});
    rig_up("siit");
    hardware((struct doca_flow_model_faults){.updates_most = 1, .remove_one_in = 20, .full_one_in = 200,
                                             .destroy_callbacks = true});
    for (unsigned i = 0; i < LOADS; i++) {
        struct fault fault = {0};
        unsigned moved;

        if (i % 5 == 4)
            done += engine_drain(&rig, i % 2 ? "b1" : "b2", &moved, &fault);
        else
            done += load(random_program(&seed));
        degraded += !rig.consistent;
        check_status();
        if (rig.consistent)
            check_packets();
    }
    (void)fprintf(stderr, "%u of %d loads, %u times degraded\n", done, LOADS, degraded);
    assert_true(done > LOADS / 2);
    assert_true(degraded < LOADS / 20);
    hardware((struct doca_flow_model_faults){.updates_most = 1});
    rig_load(random_program(&seed));
    rig_load(rig_json("siit"));
    assert_int_equal(of_status("awaiting_removal"), 0);
    check_status();
    check_packets();
    down();
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
        cmocka_unit_test(answers_come_from_the_vip_that_asked),
        cmocka_unit_test(answers_to_probes_go_where_probes_come_from),
        cmocka_unit_test(counts_each_packet_once),
        cmocka_unit_test(keeps_entries_beside_a_full_budget),
        cmocka_unit_test(late_answers_give_way),
        cmocka_unit_test(keeps_translations_beside_a_full_budget),
        cmocka_unit_test(ignores_callbacks_of_what_goes_with_its_pipe),
        cmocka_unit_test(fares_as_the_program_says),
    };

    return cmocka_run_group_tests_name("ext_resilience", tests, NULL, NULL);
}
