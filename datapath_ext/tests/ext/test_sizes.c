/* SPDX-License-Identifier: Apache-2.0 */
/* What a wrong request costs: as much memory as its text makes when it is parsed, and next to none if it has more values
 * than any program. Counted in what the JSON library allocates. */
#include <malloc.h>

#include "command.h"
#include "json_read.h"
#include "log.h"
#include "rig.h"

enum { SLACK = 1 << 16 };

static size_t live, peak;

static void *counted_malloc(size_t size)
{
    void *memory = malloc(size);

    live += malloc_usable_size(memory);
    peak = live > peak ? live : peak;
    return memory;
}

static void counted_free(void *memory)
{
    live -= malloc_usable_size(memory);
    free(memory);
}

/* A request to load one of the examples, in which the value at the path is so many of the pieces. Its length. */
static size_t wrong(char **text, const char *path, const char *start, const char *piece, size_t count, const char *end)
{
    json_t *program = rig_json("l2-slots"), *request;
    char *line, *at;
    size_t length;

    rig_put(program, path, json_string("HERE"));
    request = json_pack("{s:s, s:o}", "command", "load", "program", program);
    line = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    at = strstr(line, "\"HERE\"");
    assert_true(at != NULL);
    length = strlen(line) + strlen(start) + count * strlen(piece) + strlen(end);
    *text = malloc(length + 1);
    assert_true(*text != NULL);
    memcpy(*text, line, (size_t)(at - line));
    length = (size_t)(at - line);
    length += (size_t)sprintf(*text + length, "%s", start);
    for (size_t i = 0; i < count; i++) {
        memcpy(*text + length, piece, strlen(piece));
        length += strlen(piece);
    }
    length += (size_t)sprintf(*text + length, "%s%s", end, at + strlen("\"HERE\""));
    free(line);
    return length;
}

static size_t cost(const char *text, size_t length, bool ok)
{
    size_t before = live;
    json_t *answer;
    bool stop;

    peak = live;
    answer = command_run(&rig, text, length, &stop);
    assert_int_equal(json_is_true(json_object_get(answer, "ok")), ok);
    if (!ok)
        (void)fprintf(stderr, "%s\n", json_string_value(json_object_get(answer, "error")));
    json_decref(answer);
    if (!ok)
        assert_int_equal(live, before);
    return peak - before;
}

static size_t cost_of_parsing(const char *text, size_t length)
{
    size_t before = live;

    peak = live;
    json_decref(json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL));
    return peak - before;
}

static void refuses_without_a_copy(void **state)
{
    static const struct {
        const char *path, *start, *piece, *end;
        size_t count;
        bool ok;
    } cases[] = {
        {"version", "[0", ",1", "]", 100000, false},
        {"ports", "\"", "x", "\"", 1000000, false},
        {"vips/0/port", "[0", ",{}", "]", 100000, false},
        {"vips/2/slots", "[\"b1\"", ",\"b1\"", "]", 100000, false},
        {"vips/2/slots/0", "[0", ",[]", "]", 100000, false},
        {"backends/1/mac", "{\"a\":[0", ",1", "]}", 100000, false},
        {"more", "[0", ",1", "]", 100000, false},
        {"about", "\"", "x", "\"", 1000000, true},
    };

    json_set_alloc_funcs(counted_malloc, counted_free);
    log_set_level(LOG_NOTHING);
    rig_up("l2-slots");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text;
        size_t length = wrong(&text, cases[i].path, cases[i].start, cases[i].piece, cases[i].count, cases[i].end);
        size_t parsing = cost_of_parsing(text, length), all = cost(text, length, cases[i].ok);

        (void)fprintf(stderr, "%s: %zu bytes, %zu to parse, %zu to refuse\n", cases[i].path, length, parsing, all);
        assert_true(parsing > length);
        assert_true(all < parsing + SLACK);
        free(text);
    }
    rig_down();
}

static void refuses_without_parsing(void **state)
{
    static const struct {
        const char *start, *piece, *end;
        size_t count;
    } cases[] = {
        {"[0", ",1", "]", 3000000}, {"[{}", ",{}", "]", 150000}, {"[[]", ",[]", "]", 150000}, {"", "[", "", 150000}};

    rig_up("l2-slots");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text;
        size_t length = wrong(&text, "version", cases[i].start, cases[i].piece, cases[i].count, cases[i].end);

        assert_true(cost(text, length, false) < SLACK);
        free(text);
    }
    rig_down();
}

static void drains_no_unknown_backend(void **state)
{
    static const char request[] = "{\"command\":\"drain\",\"backend\":\"b9\"}";
    json_t *json = rig_json("l2-slots"), *slots = json_array();

    for (unsigned i = 0; i < 4096; i++)
        (void)json_array_append_new(slots, json_string("b1"));
    rig_put(json, "budgets/slots", json_integer(8192));
    rig_put(json, "budgets/counters", json_integer(8208));
    rig_put(json, "vips/0/slots", slots);
    rig_up_json(json);
    assert_true(cost(request, strlen(request), false) < SLACK);
    rig_down();
}

/* Brackets and commas in texts are no values, nor is a quotation mark behind a backslash their end. */
static void counts_no_texts(void **state)
{
    char *text;
    size_t length;

    rig_up("l2-slots");
    length = wrong(&text, "about", "\"", "[{,\\\"\\\\", 300000, "\"");
    (void)cost(text, length, true);
    free(text);
    rig_down();
}

/* The largest that there may be: every slot, and as many VIPs and backends. */
static void reads_the_largest_program(void **state)
{
    struct fault fault = {0};
    json_t *json = rig_json("l2-slots"), *backends = json_array(), *vips = json_array();
    struct program *program;
    char *text;

    rig_put(json, "budgets", json_pack("{s:i, s:i, s:i, s:i}", "vips", 4096, "slots", 1 << 20, "backends", 65536,
                                       "counters", (1 << 20) + 16));
    for (int i = 0; i < BACKENDS_MAX; i++) {
        char name[16], mac[18], address[20];

        (void)snprintf(name, sizeof(name), "b%d", i);
        (void)snprintf(mac, sizeof(mac), "02:00:00:00:%02x:%02x", (unsigned)i >> 8, (unsigned)i & 0xff);
        (void)snprintf(address, sizeof(address), "10.%d.%d.1", i >> 8, i & 0xff);
        (void)json_array_append_new(backends, json_pack("{s:s, s:s, s:s}", "name", name, "mac", mac, "address", address));
    }
    for (int i = 0; i < 4096; i++) {
        json_t *slots = json_array();
        char name[16], address[20];

        (void)snprintf(name, sizeof(name), "v%d", i);
        (void)snprintf(address, sizeof(address), "192.%d.%d.1", 1 + (i >> 8), i & 0xff);
        for (int slot = 0; slot < 256; slot++) {
            const json_t *backend = json_array_get(backends, (size_t)(256 * i + slot) % BACKENDS_MAX);

            (void)json_array_append(slots, json_object_get(backend, "name"));
        }
        (void)json_array_append_new(
            vips, json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:[s,s,s,s], s:o, s:s}", "name", name, "family", "ipv4",
                            "address", address, "protocol", "udp", "port", 53, "select", "client", "hash_fields",
                            "src_ip", "dst_ip", "src_port", "dst_port", "slots", slots, "forward", "l2"));
    }
    rig_put(json, "backends", json_incref(backends));
    rig_put(json, "vips", vips);
    text = json_dumps(json, JSON_COMPACT);
    program = program_read_text(text, strlen(text), "$", &fault);
    if (program == NULL)
        (void)fprintf(stderr, "%s\n", fault.text);
    assert_true(program != NULL);
    program_free(program);
    free(text);
    (void)json_array_append(backends, json_array_get(backends, 0)); /* one more */
    json_decref(backends);
    assert_true(program_read(json, &fault) == NULL);
    assert_true(strcmp(fault.text, "$.backends: found 65537 backends, expected 65536 at most") == 0);
    json_decref(json);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_without_a_copy),
        cmocka_unit_test(refuses_without_parsing),
        cmocka_unit_test(drains_no_unknown_backend),
        cmocka_unit_test(counts_no_texts),
        cmocka_unit_test(reads_the_largest_program),
    };

    return cmocka_run_group_tests_name("ext_sizes", tests, NULL, NULL);
}
