/* SPDX-License-Identifier: Apache-2.0 */
/* Loads while packets flow: what is the same stays, what changes changes in place, and no packet is lost. */
#include "rig.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_bool stop;
static atomic_ulong sent, lost;

/* Queries to the VIPs that every program of these tests has, as fast as they go. */
static void *keep_sending(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        struct doca_flow_model_result result;
        struct frame frame;

        rig_frame(&frame, (struct rig_packet){.src = i % 2 ? "192.0.2.9" : "2001:db8::9",
                                              .dst = i % 2 ? "198.51.100.1" : "2001:db8:1::1",
                                              .src_port = (uint16_t)i});
        assert_doca_ok(doca_flow_model_receive(PORT_IN, frame.bytes, frame.length, &result));
        atomic_fetch_add(result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT ? &sent : &lost, 1);
        if (result.outputs[0].verdict != DOCA_FLOW_MODEL_SENT)
            (void)fprintf(stderr, "lost: %s\n", result.outputs[0].reason);
        doca_flow_model_result_free(&result);
    }
    return NULL;
}

/* Any way of choosing and forwarding, any slots; MAC and IP addresses of backends change too. */
static json_t *random_program(unsigned *seed)
{
    static const char *const selects[] = {"slots", "client", "spray"};
    json_t *json = rig_json("ipip");
    char mac[18];

    (void)snprintf(mac, sizeof(mac), "02:00:00:00:00:%02x", 0x10 + rig_random_below(seed, 4));
    rig_put(json, "backends/0/mac", json_string(mac));
    rig_put(json, "backends/1/address", json_string(rig_random_below(seed, 2) ? "192.0.2.12" : "2001:db8::12"));
    for (unsigned vip = 0; vip < 2; vip++) {
        const char *forward = rig_random_below(seed, 2) ? "l2" : "ipip", *select = selects[rig_random_below(seed, 3)];

        rig_put_vip(json, vip, forward, select, 1U << rig_random_below(seed, 6), seed);
    }
    return json;
}

static void loses_no_packet(void **state)
{
    pthread_t thread;
    unsigned seed = 3;

    atomic_store(&stop, false);
    rig_up("ipip");
    assert_int_equal(pthread_create(&thread, NULL, keep_sending, NULL), 0);
    for (unsigned i = 0; i < 150; i++)
        rig_load(random_program(&seed));
    rig_load(rig_json("ipip"));
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&lost), 0);
    assert_true(atomic_load(&sent) > 1000);
    assert_int_equal(rig_missed(), 0);
    assert_int_equal(rig_counter("vips/0/packets") + rig_counter("vips/1/packets"), (long long)atomic_load(&sent));
    assert_int_equal(rig_counter("vips/0/backends/b1/packets") + rig_counter("vips/0/backends/b2/packets") +
                     rig_counter("vips/1/backends/b1/packets") + rig_counter("vips/1/backends/b2/packets"),
                     (long long)atomic_load(&sent));
    /* Nothing is left of all that was between. */
    assert_int_equal(rig.dataplane.service_count, 2);
    assert_true(rig.dataplane.selectors != NULL && rig.dataplane.selectors->next == NULL);
    (void)fprintf(stderr, "%lu packets\n", atomic_load(&sent));
    rig_down();
}

/* Queries to a VIP that is translated; each backend answers from where the query went. */
static void *keep_asking(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        struct doca_flow_model_result query, answer;
        struct frame frame;
        char backend[INET6_ADDRSTRLEN];

        rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = (uint16_t)i});
        query = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
        assert_true(inet_ntop(AF_INET6, query.outputs[0].frame + 38, backend, sizeof(backend)) != NULL);
        doca_flow_model_result_free(&query);
        rig_frame(&frame, (struct rig_packet){.src = backend, .dst = "64:ff9b::192.0.2.9", .src_port = 53,
                                              .dst_port = (uint16_t)i});
        answer = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
        assert_true(memcmp(answer.outputs[0].frame + 26, "\xc6\x33\x64\x01\xc0\x00\x02\x09", 8) == 0);
        doca_flow_model_result_free(&answer);
        atomic_fetch_add(&sent, 1);
    }
    return NULL;
}

static json_t *random_translation(unsigned *seed)
{
    static const char *const selects[] = {"slots", "spray"};
    json_t *json = rig_json("siit"), *slots = json_array();
    unsigned count = 1U << rig_random_below(seed, 6);

    for (unsigned i = 0; i < count; i++)
        assert_int_equal(json_array_append_new(slots, json_string(rig_random_below(seed, 2) ? "b1" : "b2")), 0);
    rig_put(json, "vips/0/slots", slots);
    rig_put(json, "vips/0/select", json_string(selects[rig_random_below(seed, 2)]));
    return json;
}

static void loses_no_answer(void **state)
{
    pthread_t thread;
    unsigned seed = 5;

    atomic_store(&stop, false);
    atomic_store(&sent, 0);
    rig_up("siit");
    assert_int_equal(pthread_create(&thread, NULL, keep_asking, NULL), 0);
    for (unsigned i = 0; i < 150 || atomic_load(&sent) < 500; i++)
        rig_load(random_translation(&seed));
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rig_missed(), 0);
    assert_int_equal(rig_counter("vips/0/packets"), (long long)atomic_load(&sent));
    rig_down();
}

static void touches_nothing_that_is_the_same(void **state)
{
    rig_up("l2-slots");
    rig_load(rig_json("l2-slots"));
    assert_int_equal(rig.dataplane.added + rig.dataplane.replaced + rig.dataplane.removed + rig.dataplane.slots_updated, 0);
    rig_down();
}

static void moves_slots_in_place(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_up("l2-slots");
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2 * 3}), 0x12);
    rig_put(json, "vips/0/slots/3", json_string("b1"));
    rig_load(json);
    assert_int_equal(rig.dataplane.slots_updated, 1);
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2 * 3}), 0x11);
    assert_int_equal(rig_counter("vips/0/backends/b2/packets"), 1); /* each packet is its backend's at the time */
    assert_int_equal(rig_counter("vips/0/backends/b1/packets"), 1);
    rig_down();
}

static void adds_renames_and_removes(void **state)
{
    json_t *json = rig_json("l2-slots");
    struct frame frame;

    rig_up("l2-slots");
    rig_put(json, "vips/0/name", json_string("renamed"));
    rig_put(json, "vips/1", NULL);
    rig_put(json, "vips/2", json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:[s],s:s}", "name", "new", "family", "ipv4", "address",
                                      "198.51.100.9", "protocol", "udp", "port", 5353, "select", "spray", "slots", "b1",
                                      "forward", "l2"));
    rig_load(json);
    assert_int_equal(rig.dataplane.added, 1);
    assert_int_equal(rig.dataplane.removed, 1);
    assert_int_equal(rig.dataplane.replaced + rig.dataplane.slots_updated, 0);
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.9", .dst_port = 5353}), 0x11);
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1"}), 0x11);
    rig_frame(&frame, (struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .protocol = 6});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    rig_load(rig_json("l2-slots"));
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    rig_down();
}

static void drains_a_backend(void **state)
{
    struct fault fault = {0};
    unsigned slots;

    rig_up("l2-slots");
    assert_true(engine_drain(&rig, "b2", &slots, &fault));
    assert_int_equal(slots, 12);
    for (uint16_t port = 0; port < 16; port++)
        assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = port}), 0x11);
    assert_true(rig.draining);
    assert_true(!engine_drain(&rig, "b1", &slots, &fault));
    assert_true(strcmp(fault.text, "drain: backend b1 is the only one of vip dns4") == 0);
    fault.text[0] = '\0';
    assert_true(!engine_drain(&rig, "b9", &slots, &fault));
    assert_true(strcmp(fault.text, "drain: there is no backend b9") == 0);
    rig_load(rig_json("l2-slots"));
    assert_true(!rig.draining);
    assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2}), 0x12);
    rig_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(touches_nothing_that_is_the_same),
        cmocka_unit_test(moves_slots_in_place),
        cmocka_unit_test(adds_renames_and_removes),
        cmocka_unit_test(drains_a_backend),
        cmocka_unit_test(loses_no_packet),
        cmocka_unit_test(loses_no_answer),
    };

    return cmocka_run_group_tests_name("ext_reload", tests, NULL, NULL);
}
