/* SPDX-License-Identifier: Apache-2.0 */
/* Names as long as they may be, and of any characters: they are what VIPs and backends are told apart by. */
#include "command.h"
#include "rig.h"

enum { LONGEST = 160 };

/* `count` characters of two bytes each, and a last one that tells names apart. */
static json_t *wide_name(unsigned count, char last)
{
    char text[2 * LONGEST + 8];

    for (unsigned i = 0; i + 1 < count; i++)
        memcpy(text + 2 * (size_t)i, "\xc3\xa9", 2);
    text[2 * (count - 1)] = last;
    return json_stringn(text, 2 * (count - 1) + 1);
}

/* The example with long names of both backends and of the first VIP. */
static json_t *with_long_names(const char *example)
{
    json_t *json = rig_json(example);
    size_t i, slot;
    json_t *vip, *item;

    rig_put(json, "backends/0/name", wide_name(LONGEST, '1'));
    rig_put(json, "backends/1/name", wide_name(LONGEST, '2'));
    rig_put(json, "vips/0/name", wide_name(LONGEST, 'v'));
    json_array_foreach(json_object_get(json, "vips"), i, vip)
        json_array_foreach(json_object_get(vip, "slots"), slot, item) {
            char last = json_string_value(item)[1];

            assert_int_equal(json_array_set_new(json_object_get(vip, "slots"), slot, wide_name(LONGEST, last)), 0);
        }
    return json;
}

static void tells_long_names_apart(void **state)
{
    static const char *const examples[] = {"l2-slots", "ipip", "siit"};

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        json_t *status;
        struct fault fault = {0};
        unsigned slots;
        bool stop;

        rig_up_json(with_long_names(examples[i]));
        assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 0}), 0x11);
        assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2}), 0x12);
        rig_load(with_long_names(examples[i]));
        assert_int_equal(rig.dataplane.slots_updated + rig.dataplane.targets_updated, 0);
        assert_int_equal(rig_counter("vips/0/packets"), 2);
        status = command_run(&rig, "{\"command\":\"counters\"}", 22, &stop);
        assert_int_equal(json_object_size(rig_at(status, "vips/0/backends")), 2);
        json_decref(status);
        assert_true(engine_drain(&rig, json_string_value(rig_at(rig.program->source, "backends/1/name")), &slots, &fault));
        assert_int_equal(rig_backend((struct rig_packet){.src = "192.0.2.9", .dst = "198.51.100.1", .src_port = 2}), 0x11);
        assert_int_equal(rig_missed(), 0);
        rig_down();
    }
}

static bool reads(json_t *json)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);
    bool done = program != NULL;

    assert_true(done || strstr(fault.text, "expected a name of 1 to 160 characters") != NULL);
    program_free(program);
    json_decref(json);
    return done;
}

static void counts_characters(void **state)
{
    json_t *json = rig_json("l2-slots");

    rig_put(json, "vips/0/name", wide_name(LONGEST, 'v'));
    assert_true(reads(json));
    json = rig_json("l2-slots");
    rig_put(json, "vips/0/name", wide_name(LONGEST + 1, 'v'));
    assert_true(!reads(json));
    json = rig_json("l2-slots");
    rig_put(json, "vips/0/name", json_string(""));
    assert_true(!reads(json));
}

/* Wherever a reason is cut, what is sent as the answer is JSON, which is UTF-8. */
static void answers_whatever_the_names_are(void **state)
{
    rig_up("l2-slots");
    for (unsigned length = 1; length <= LONGEST; length++) {
        json_t *json = rig_json("l2-slots"), *request, *answer;
        char *line;
        bool stop;

        rig_put(json, "vips/0/name", wide_name(length, 'v'));
        rig_put(json, "vips/0/slots/3", json_pack("{s:o}", "x", wide_name(length, 'b')));
        request = json_pack("{s:s, s:o}", "command", "load", "program", json);
        line = json_dumps(request, JSON_COMPACT);
        assert_true(line != NULL);
        answer = command_run(&rig, line, strlen(line), &stop);
        assert_true(json_is_false(json_object_get(answer, "ok")));
        assert_true(strstr(json_string_value(json_object_get(answer, "error")), "vips[0].slots") != NULL);
        json_decref(answer);
        json_decref(request);
        free(line);
    }
    rig_down();
}

/* What is no UTF-8, as from a command line, is still a reason that can be sent. */
static void cleans_reasons(void **state)
{
    static const struct {
        const char *found, *clean;
    } texts[] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"},
        {"\xff", "?"},
        {"a\xc3", "a?"},
        {"\xe2\x82z", "??z"},
        {"\xc0\xaf", "??"},             /* longer than needed */
        {"\xed\xa0\x80", "???"},        /* half of a pair */
        {"\xf4\x90\x80\x80", "????"},   /* beyond the last character */
        {"\x80\xbf", "??"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fault fault = {0};

        assert_true(!fault_set(&fault, "%s", texts[i].found));
        assert_true(strcmp(fault.text, texts[i].clean) == 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_long_names_apart),
        cmocka_unit_test(counts_characters),
        cmocka_unit_test(answers_whatever_the_names_are),
        cmocka_unit_test(cleans_reasons),
    };

    return cmocka_run_group_tests_name("ext_names", tests, NULL, NULL);
}
