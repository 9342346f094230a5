/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as the socket hands them over, line by line. */
#include "command.h"
#include "log.h"
#include "rig.h"

static json_t *ask(const char *line, bool *stop)
{
    json_t *answer = command_run(&rig, line, strlen(line), stop);

    assert_true(json_is_object(answer));
    assert_true(json_is_boolean(json_object_get(answer, "ok")));
    return answer;
}

static void refuse(const char *line, const char *text)
{
    bool stop;
    json_t *answer = ask(line, &stop);
    const char *error = json_string_value(json_object_get(answer, "error"));

    assert_true(!stop && json_is_false(json_object_get(answer, "ok")) && error != NULL);
    if (strcmp(error, text) != 0)
        (void)fprintf(stderr, "found    %s\nexpected %s\n", error, text);
    assert_true(strcmp(error, text) == 0);
    json_decref(answer);
}

static json_t *run(const char *line)
{
    bool stop;
    json_t *answer = ask(line, &stop);

    if (!json_is_true(json_object_get(answer, "ok")))
        (void)fprintf(stderr, "%s\n", json_string_value(json_object_get(answer, "error")));
    assert_true(json_is_true(json_object_get(answer, "ok")));
    assert_int_equal(stop, strstr(line, "stop") != NULL);
    return answer;
}

static void refuses_bad_requests(void **state)
{
    rig_up("l2-slots");
    refuse("", "request: found no JSON (line 1, column 0: '[' or '{' expected near end of file), expected an object");
    refuse("[]", "request: found [], expected an object");
    refuse("{}", "request.command: found nothing, expected one of \"load\", \"status\", \"counters\", \"slots\", "
                 "\"dump\", \"drain\", \"stop\"");
    refuse("{\"command\":\"reboot\"}", "request.command: found \"reboot\", expected one of \"load\", \"status\", "
                                       "\"counters\", \"slots\", \"dump\", \"drain\", \"stop\"");
    refuse("{\"command\":\"status\",\"really\":true}", "request.really: found an unknown member, expected one of command");
    refuse("{\"command\":\"drain\"}", "request.backend: found nothing, expected a name of 1 to 160 characters");
    refuse("{\"command\":\"load\"}", "request.program: found nothing, expected a program");
    refuse("{\"command\":\"load\",\"program\":{}}", "$.version: found nothing, expected 1");
    rig_down();
}

static void reports(void **state)
{
    json_t *answer;

    rig_up("ipip");
    answer = run("{\"command\":\"status\"}");
    assert_true(strcmp(json_string_value(json_object_get(answer, "state")), "running") == 0);
    assert_int_equal(json_integer_value(rig_at(answer, "used_of_budget/slots/0")), 16);
    assert_int_equal(json_integer_value(rig_at(answer, "used_of_budget/backends/0")), 4);
    assert_true(json_is_true(rig_at(answer, "ports/1/present")));
    json_decref(answer);
    answer = run("{\"command\":\"dump\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "services")), 2);
    assert_int_equal(json_array_size(json_object_get(answer, "selectors")), 1);
    assert_true(strcmp(json_string_value(rig_at(answer, "services/0/slots/1/backend")), "b2") == 0);
    json_decref(answer);
    answer = run("{\"command\":\"counters\"}");
    assert_int_equal(json_integer_value(rig_at(answer, "vips/0/packets")), 0);
    json_decref(answer);
    json_decref(run("{\"command\":\"drain\",\"backend\":\"b1\"}"));
    answer = run("{\"command\":\"status\"}");
    assert_true(json_is_true(json_object_get(answer, "draining")));
    json_decref(answer);
    json_decref(run("{\"command\":\"stop\"}"));
    rig_down();
}

static void loads(void **state)
{
    json_t *program = rig_json("l2-slots"), *request, *answer;
    char *line;

    rig_up("l2-slots");
    rig_put(program, "vips/0/slots/0", json_string("b2"));
    request = json_pack("{s:s, s:o}", "command", "load", "program", program);
    line = json_dumps(request, JSON_COMPACT);
    answer = run(line);
    assert_int_equal(json_integer_value(json_object_get(answer, "slots_updated")), 1);
    json_decref(answer);
    json_decref(request);
    free(line);
    rig_down();
}

/* Whatever comes in by the socket: an answer goes back, and the program stays what it was or is replaced whole. */
static void survives_damaged_requests(void **state)
{
    json_t *request = json_pack("{s:s, s:o}", "command", "load", "program", rig_json("ipip"));
    char *line = json_dumps(request, JSON_COMPACT);
    size_t length = strlen(line);
    unsigned seed = 5;

    log_set_level(LOG_NOTHING);
    rig_up("ipip");
    for (unsigned i = 0; i < 2000; i++) {
        bool stop;
        size_t at;
        char old;

        seed = seed * 1103515245U + 12345U;
        at = (seed >> 8) % length;
        old = line[at];
        line[at] = (char)("0123456789abcdef\"{}[]:,.\\ \0\377"[(seed >> 24) % 28]);
        json_decref(command_run(&rig, line, i % 9 == 0 ? at : length, &stop));
        line[at] = old;
    }
    assert_true(rig.consistent);
    assert_int_equal(rig_missed(), 0);
    json_decref(run(line));
    rig_down();
    free(line);
    json_decref(request);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_requests),
        cmocka_unit_test(reports),
        cmocka_unit_test(loads),
        cmocka_unit_test(survives_damaged_requests),
    };

    return cmocka_run_group_tests_name("ext_commands", tests, NULL, NULL);
}
