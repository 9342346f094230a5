/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are refused, and what is said about them: where, what was found, what was expected. */
#include "rig.h"

static void reads_the_examples(void **state)
{
    static const char *const names[] = {"l2-slots", "l2-client", "l2-spray", "ipip", "siit"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fault fault = {0};
        char path[512];
        struct program *program;

        (void)snprintf(path, sizeof(path), "%s/%s.json", PROGRAMS, names[i]);
        program = program_read_file(path, &fault);
        if (program == NULL)
            (void)fprintf(stderr, "%s\n", fault.text);
        assert_true(program != NULL);
        assert_true(program->vip_count >= 2);
        assert_int_equal(program->vips[0].slot_count, 8);
        program_free(program);
    }
}

static void refuse(json_t *json, const char *text)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);

    assert_null(program);
    assert_string_equal(fault.text, text);
    json_decref(json);
}

struct change {
    const char *program, *path, *value, *text; /* value: JSON, NULL removes */
};

#define MAC_ERROR "expected a unicast MAC address such as \"02:00:00:00:00:01\""
#define SLOTS_ERROR "expected an array of backends' names, of a length that is a power of two up to 32768"

static const struct change changes[] = {
    {"l2-slots", "version", NULL, "$.version: found nothing, expected 1"},
    {"l2-slots", "version", "2", "$.version: found 2, expected 1, the only version that this program knows"},
    {"l2-slots", "version", "\"1\"", "$.version: found \"1\", expected 1, the only version that this program knows"},
    {"l2-slots", "extra", "true", "$.extra: found an unknown member, expected one of version, about, ports, tunnel, probe, budgets, "
                                  "backends, vips"},
    {"l2-slots", "ports", "[]", "$.ports: found [], expected an object"},
    {"l2-slots", "ports/in", "\"\"", "$.ports.in: found \"\", expected a name of 1 to 160 characters"},
    {"l2-slots", "ports/out", "\"ext-in\"", "$.ports.out: found \"ext-in\", which is also $.ports.in, expected another "
                                            "device"},
    {"l2-slots", "budgets/slots", "0", "$.budgets.slots: found 0, expected a whole number from 1 to 1048576"},
    {"l2-slots", "budgets/slots", "16", "$.budgets.slots: found 16, expected 24 or more (vip dns6 does not fit)"},
    {"l2-slots", "budgets/vips", "1.5", "$.budgets.vips: found 1.5, expected a whole number from 1 to 4096"},
    {"l2-slots", "budgets/vips", "2", "$.budgets.vips: found 2, expected 3 or more (vip dns6 does not fit)"},
    {"l2-slots", "backends/0/mac", "\"02:00:00:00:00\"", "$.backends[0].mac: found \"02:00:00:00:00\", " MAC_ERROR},
    {"l2-slots", "backends/0/mac", "\"ff:ff:ff:ff:ff:ff\"", "$.backends[0].mac: found \"ff:ff:ff:ff:ff:ff\", " MAC_ERROR},
    {"l2-slots", "backends/0/mac", "\"02:00:00:00:00:0g\"", "$.backends[0].mac: found \"02:00:00:00:00:0g\", " MAC_ERROR},
    {"l2-slots", "backends/0/address", "\"192.0.2\"", "$.backends[0].address: found \"192.0.2\", expected an IP address"},
    {"l2-slots", "backends/2", "{\"name\": \"b1\", \"mac\": \"02:00:00:00:00:13\"}",
     "$.backends[2].name: found \"b1\", which backend 0 has too, expected names of their own"},
    {"l2-slots", "backends/1/address", "\"192.0.2.11\"", "$.backends[1].address: found the address of backend b1, "
                                                         "expected addresses of their own (backend b2)"},
    {"l2-slots", "vips/0/address", "\"2001:db8::1\"", "vip dns4: $.vips[0].address: found \"2001:db8::1\", expected an "
                                                      "IPv4 address"},
    {"l2-slots", "vips/2/address", "\"192.0.2.1\"", "vip dns6: $.vips[2].address: found \"192.0.2.1\", expected an IPv6 "
                                                    "address"},
    {"l2-slots", "vips/0/port", "65536", "vip dns4: $.vips[0].port: found 65536, expected a whole number from 1 to "
                                         "65535"},
    {"l2-slots", "vips/0/protocol", "\"sctp\"", "vip dns4: $.vips[0].protocol: found \"sctp\", expected one of \"udp\", "
                                                "\"tcp\""},
    {"l2-slots", "vips/1/protocol", "\"udp\"", "$.vips[1]: found the address, protocol and port of vip dns4, expected "
                                               "other ones (vip dns4-tcp)"},
    {"l2-slots", "vips/1/name", "\"dns4\"", "$.vips[1].name: found \"dns4\", which vip 0 has too, expected names of their "
                                            "own"},
    {"l2-slots", "vips/0/slots/7", NULL, "vip dns4: $.vips[0].slots: found 7 slots, " SLOTS_ERROR " (vip dns4)"},
    {"l2-slots", "vips/0/slots", "[]", "vip dns4: $.vips[0].slots: found 0 slots, " SLOTS_ERROR " (vip dns4)"},
    {"l2-slots", "vips/0/slots", "8", "vip dns4: $.vips[0].slots: found 8, " SLOTS_ERROR},
    {"l2-slots", "vips/0/slots/3", "\"b3\"", "vip dns4: $.vips[0].slots[3]: found \"b3\", expected the name of a backend"},
    {"l2-slots", "vips/0/slots/3", "3", "vip dns4: $.vips[0].slots[3]: found 3, expected the name of a backend"},
    {"l2-slots", "vips/0/select", "\"rss\"", "vip dns4: $.vips[0].select: found \"rss\", expected one of \"slots\", "
                                             "\"client\", \"spray\""},
    {"l2-slots", "vips/0/hash_fields", "[\"src_ip\"]", "vip dns4: $.vips[0].hash_fields: found [\"src_ip\"], expected "
                                                       "none: they go with select \"client\""},
    {"l2-client", "vips/0/hash_fields", "[]", "vip dns4: $.vips[0].hash_fields: found [], expected one or more of "
                                              "\"src_ip\", \"dst_ip\", \"src_port\", \"dst_port\""},
    {"l2-client", "vips/0/hash_fields", NULL, "vip dns4: $.vips[0].hash_fields: found nothing, expected one or more of "
                                              "\"src_ip\", \"dst_ip\", \"src_port\", \"dst_port\""},
    {"l2-client", "vips/0/hash_fields/1", "\"ttl\"", "vip dns4: $.vips[0].hash_fields: found [\"src_ip\",\"ttl\"], expected "
                                                     "one or more of \"src_ip\", \"dst_ip\", \"src_port\", \"dst_port\""},
    {"ipip", "tunnel", NULL, "$.tunnel: found no IPv4 source address, expected one (vip dns4 has tunnels to backend b1)"},
    {"ipip", "tunnel/ipv6", NULL, "$.tunnel: found no IPv6 source address, expected one (vip dns4 has tunnels to backend "
                                  "b2)"},
    {"ipip", "tunnel/ipv6", "\"192.0.2.1\"", "$.tunnel.ipv6: found \"192.0.2.1\", expected an IPv6 address"},
    {"ipip", "backends/0/address", NULL, "$.vips[0].slots[0]: found backend b1 without an address, expected one with an "
                                         "address (vip dns4 forwards by ipip)"},
    {"siit", "backends/1/address", "\"192.0.2.12\"", "$.vips[0].slots[1]: found backend b2 with an IPv4 address, expected "
                                                     "an IPv6 address (vip dns4 forwards by siit)"},
    {"siit", "vips/2", "{\"name\": \"second\", \"family\": \"ipv4\", \"address\": \"198.51.100.2\", \"protocol\": \"udp\", "
                       "\"port\": 53, \"select\": \"spray\", \"slots\": [\"b2\"], \"forward\": \"siit\"}",
     "$.vips[2].slots: found backend b2, which answers for vip dns4 from the same port too, expected backends of its own "
     "(vip second)"},
    {"siit", "vips/2", "{\"name\": \"six\", \"family\": \"ipv6\", \"address\": \"2001:db8::53\", \"protocol\": \"udp\", "
                       "\"port\": 53, \"select\": \"spray\", \"slots\": [\"b2\"], \"forward\": \"siit\"}",
     "$.vips[2].address: found an IPv6 address, expected an IPv4 address (vip six forwards by siit)"},
};

static void refuses_bad_programs(void **state)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        json_t *json = rig_json(changes[i].program);

        rig_put(json, changes[i].path, changes[i].value != NULL
                                           ? json_loads(changes[i].value, JSON_DECODE_ANY, NULL) : NULL);
        refuse(json, changes[i].text);
    }
}

static void refuses_what_is_no_json(void **state)
{
    static const char *const texts[] = {"", "{", "[]", "{\"version\": 1, \"version\": 1}", "nonsense", "{\"version\":1}"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fault fault = {0};

        assert_true(program_read_text(texts[i], strlen(texts[i]), "$", &fault) == NULL);
        assert_true(strstr(fault.text, "found") != NULL && strstr(fault.text, "expected") != NULL);
    }
}

/* Whatever a byte of a program becomes: read or refused with a reason, and nothing is left behind. */
static void survives_damaged_programs(void **state)
{
    json_t *json = rig_json("ipip");
    char *text = json_dumps(json, JSON_COMPACT);
    size_t length = strlen(text);
    unsigned seed = 1;

    for (unsigned i = 0; i < 3000; i++) {
        struct fault fault = {0};
        struct program *program;
        size_t at;
        char old;

        seed = seed * 1103515245U + 12345U;
        at = (seed >> 8) % length;
        old = text[at];
        text[at] = (char)(seed >> 24);
        program = program_read_text(text, length, "$", &fault);
        assert_true((program == NULL) == (fault.text[0] != '\0'));
        program_free(program);
        text[at] = old;
    }
    free(text);
    json_decref(json);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_examples),
        cmocka_unit_test(refuses_bad_programs),
        cmocka_unit_test(refuses_what_is_no_json),
        cmocka_unit_test(survives_damaged_programs),
    };

    return cmocka_run_group_tests_name("ext_read", tests, NULL, NULL);
}
