/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out: each allocation of the program and of its JSON library fails once. The linker puts the functions
 * here in place of the C library's. */
#include "change.h"
#include "command.h"
#include "log.h"
#include "rig.h"

static unsigned countdown; /* allocations until one fails; 0: none does */
static bool failed;

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static void start(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    log_set_level(LOG_NOTHING);
    rig_up_json(change_before());
}

/* The line with every allocation failing once, until none is left to fail. */
static void starve(const char *line)
{
    unsigned refused = 0;

    for (unsigned i = 1; i == 1 || failed; i++) {
        json_t *answer;
        bool stop;

        countdown = i;
        failed = false;
        answer = command_run(&rig, line, strlen(line), &stop);
        countdown = 0;
        refused += !json_is_true(json_object_get(answer, "ok"));
        json_decref(answer);
        assert_true(rig.consistent);
        assert_int_equal(rig_missed(), 0);
    }
    assert_true(refused > 0);
}

static void answers_or_not(void **state)
{
    start();
    starve("{\"command\":\"status\"}");
    starve("{\"command\":\"counters\"}");
    starve("{\"command\":\"dump\"}");
    starve("{\"command\":\"drain\",\"backend\":\"nobody\"}");
    starve("{\"command\":");
    change_check_before();
    rig_down();
}

static void loads_or_not(void **state)
{
    unsigned refused = 0;

    start();
    failed = true;
    for (unsigned i = 1; failed; i++) {
        struct fault fault = {0};
        json_t *json = change_after();
        struct program *program;
        bool done = false;

        failed = false;
        countdown = i;
        program = program_read(json, &fault);
        if (program != NULL)
            done = engine_load(&rig, program, &fault);
        countdown = 0;
        assert_true(done == (fault.text[0] == '\0'));
        assert_true(rig.consistent);
        json_decref(json);
        refused += !done;
        if (done) {
            change_check_after();
            assert_true(change_load(change_before()));
        }
        change_check_before();
    }
    assert_true(refused > 20);
    rig_down();
}

static void drains_or_not(void **state)
{
    start();
    for (unsigned i = 1; i == 1 || failed; i++) {
        struct fault fault = {0};
        unsigned slots;
        bool done;

        failed = false;
        countdown = i;
        done = engine_drain(&rig, "b2", &slots, &fault);
        countdown = 0;
        assert_true(done == (fault.text[0] == '\0'));
        assert_true(change_load(change_before()));
    }
    change_check_before();
    rig_down();
}

static void starts_or_not(void **state)
{
    failed = true;
    for (unsigned i = 1; failed; i++) {
        struct fault fault = {0};
        json_t *json = change_before();
        struct program *program = program_read(json, &fault);

        assert_true(program != NULL);
        json_decref(json);
        failed = false;
        countdown = i;
        if (engine_open(&rig, program, &fault)) {
            countdown = 0;
            change_check_before();
            rig_down();
        } else {
            assert_true(fault.text[0] != '\0');
        }
        countdown = 0;
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_or_not),
        cmocka_unit_test(loads_or_not),
        cmocka_unit_test(drains_or_not),
        cmocka_unit_test(starts_or_not),
    };

    return cmocka_run_group_tests_name("ext_memory", tests, NULL, NULL);
}
