/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward.h"
#include "json_read.h"
#include "program_check.h"
#include "selector.h"

static const char *const families[] = {"ipv4", "ipv6", NULL};
static const char *const protocols[] = {"udp", "tcp", NULL};
static const char *const fields[] = {"src_ip", "dst_ip", "src_port", "dst_port", NULL};

static bool read_version(struct reader *reader)
{
    const json_t *found = reader_member(reader, "version", "1", true);

    if (found == NULL)
        return false;
    if (!json_is_integer(found) || json_integer_value(found) != PROGRAM_VERSION)
        return read_refuse(reader, "version", found, "1, the only version that this program knows");
    return true;
}

static bool read_ports(struct reader *top, struct program *program)
{
    struct reader reader;

    return read_object(top, "ports", &reader) && read_name(&reader, "in", &program->in) &&
           read_name(&reader, "out", &program->out) && reader_close(&reader);
}

/* Where the program comes from, for people. */
static bool read_about(struct reader *reader)
{
    const json_t *found = reader_member(reader, "about", "a text", false);

    return found == NULL || json_is_string(found) || read_refuse(reader, "about", found, "a text");
}

/* Programs without tunnels may leave it out. */
static bool read_tunnel(struct reader *top, struct program *program)
{
    struct reader reader;

    if (json_object_get(top->object, "tunnel") == NULL)
        return reader_member(top, "tunnel", "an object", false) == NULL;
    return read_object(top, "tunnel", &reader) && read_mac(&reader, "mac", program->tunnel_mac) &&
           read_address(&reader, "ipv4", 4, false, &program->tunnel_ip4) &&
           read_address(&reader, "ipv6", 6, false, &program->tunnel_ip6) && reader_close(&reader);
}

/* Programs without probes leave it out. */
static bool read_probe(struct reader *top, struct program *program)
{
    struct reader reader;

    if (json_object_get(top->object, "probe") == NULL)
        return reader_member(top, "probe", "an object", false) == NULL;
    program->has_probe = true;
    return read_object(top, "probe", &reader) && read_mac(&reader, "mac", program->probe.mac) &&
           read_address(&reader, "ipv4", 4, false, &program->probe.ip4) && reader_close(&reader);
}

static unsigned spare_slots(const struct budgets *budgets)
{
    return budgets->slots < SLOTS_MAX ? budgets->slots : SLOTS_MAX;
}

uint32_t budgets_slot_entries(const struct budgets *budgets)
{
    return budgets->slots + spare_slots(budgets);
}

uint32_t budgets_target_entries(const struct budgets *budgets)
{
    return 2 * budgets->backends;
}

uint32_t budgets_counters(const struct budgets *budgets)
{
    return budgets->counters + spare_slots(budgets);
}

static bool read_budgets(struct reader *top, struct budgets *budgets)
{
    struct reader reader;

    return read_object(top, "budgets", &reader) && read_number(&reader, "vips", 1, 4096, &budgets->vips) &&
           read_number(&reader, "slots", 1, 1U << 20, &budgets->slots) &&
           read_number(&reader, "backends", 0, 1U << 16, &budgets->backends) &&
           read_number(&reader, "counters", 1, 1U << 22, &budgets->counters) && reader_close(&reader);
}

static bool read_backend(const json_t *json, size_t number, struct backend *backend, struct fault *fault)
{
    struct reader reader;
    char path[64];

    (void)snprintf(path, sizeof(path), "$.backends[%zu]", number);
    return reader_open(&reader, json, path, fault) && read_name(&reader, "name", &backend->name) &&
           read_mac(&reader, "mac", backend->mac) &&
           (json_object_get(json, "address") == NULL ||
            read_address(&reader, "address", 0, false, &backend->address)) &&
           reader_close(&reader);
}

static bool find_word(const char *word, const char *const *words, unsigned *value)
{
    for (*value = 0; words[*value] != NULL; (*value)++)
        if (word != NULL && strcmp(word, words[*value]) == 0)
            return true;
    return false;
}

/* Which fields make a client; only `client` has them. */
static bool read_hash_fields(struct reader *reader, struct vip *vip)
{
    static const char expected[] = "one or more of \"src_ip\", \"dst_ip\", \"src_port\", \"dst_port\"";
    const json_t *array = reader_member(reader, "hash_fields", expected, vip->select->has_fields), *item;
    size_t i;

    if (!vip->select->has_fields)
        return array == NULL || read_refuse(reader, "hash_fields", array, "none: they go with select \"client\"");
    if (array == NULL)
        return false;
    json_array_foreach(array, i, item) {
        unsigned field;

        if (!find_word(json_string_value(item), fields, &field) || (vip->hash_fields & 1U << field) != 0)
            return read_refuse(reader, "hash_fields", array, expected);
        vip->hash_fields |= 1U << field;
    }
    return vip->hash_fields != 0 || read_refuse(reader, "hash_fields", array, expected);
}

static bool find_backend(const struct program *program, const char *name, unsigned *number)
{
    const json_t *found = name != NULL ? json_object_get(program->backend_numbers, name) : NULL;

    *number = (unsigned)json_integer_value(found);
    return found != NULL;
}

/* A VIP that only probes reach has none: all of its backends are out of service. */
static bool read_slots(struct reader *reader, const struct program *program, struct vip *vip)
{
    static const char expected[] = "an array of backends' names, of a length that is a power of two up to 32768";
    const json_t *array, *item;
    size_t count, i;

    if (!read_array(reader, "slots", expected, &array))
        return false;
    count = json_array_size(array);
    if (count == 0 && json_object_get(reader->object, "probes") != NULL)
        return true;
    if (count == 0 || count > SLOTS_MAX || (count & (count - 1)) != 0)
        return fault_set(reader->fault, "%s.slots: found %zu slots, expected %s (vip %s)", reader->path, count, expected,
                         vip->name);
    vip->slots = calloc(count, sizeof(*vip->slots));
    if (vip->slots == NULL)
        return fault_set(reader->fault, "%s.slots: no memory", reader->path);
    vip->slot_count = (unsigned)count;
    json_array_foreach(array, i, item) {
        char key[32];

        (void)snprintf(key, sizeof(key), "slots[%zu]", i);
        if (!find_backend(program, json_string_value(item), &vip->slots[i]))
            return read_refuse(reader, key, item, "the name of a backend");
    }
    return true;
}

static bool refuse_probe(struct reader *reader, const char *name, const json_t *found)
{
    char key[2 * NAME_SIZE];

    (void)snprintf(key, sizeof(key), "probes[\"%s\"]", name);
    return read_refuse(reader, key, found, "a number from 0 to 4095 that no other backend of the VIP has");
}

/* The VIP as probes ask it: a slot for each backend, found by its number. `probes` has no slots if there are none. */
static bool read_probes(struct reader *reader, const struct program *program, const struct vip *vip, struct vip *probes)
{
    static const char expected[] = "an object: by the name of a backend, its number; and $.probe";
    json_t *object = json_object_get(reader->object, "probes"), *item;
    bool taken[PROBE_NUMBERS] = {false};
    const char *name;

    if (object == NULL)
        return reader_member(reader, "probes", expected, false) == NULL;
    if (reader_member(reader, "probes", expected, true) == NULL)
        return false;
    if (!json_is_object(object) || json_object_size(object) == 0 || json_object_size(object) > PROBE_NUMBERS ||
        !program->has_probe)
        return read_refuse(reader, "probes", object, expected);
    *probes = *vip;
    probes->slots = calloc(json_object_size(object), sizeof(*probes->slots));
    probes->numbers = calloc(json_object_size(object), sizeof(*probes->numbers));
    probes->slot_count = 0;
    probes->hash_fields = 0;
    probes->select = &select_probes;
    probes->probe = &program->probe;
    if (probes->slots == NULL || probes->numbers == NULL)
        return fault_set(reader->fault, "%s.probes: no memory", reader->path);
    json_object_foreach(object, name, item) {
        json_int_t number = json_integer_value(item);

        if (!find_backend(program, name, &probes->slots[probes->slot_count]))
            return fault_set(reader->fault, "%s.probes: found \"%s\", expected names of backends", reader->path, name);
        if (!json_is_integer(item) || number < 0 || number >= PROBE_NUMBERS || taken[number])
            return refuse_probe(reader, name, item);
        taken[number] = true;
        probes->numbers[probes->slot_count++] = (uint16_t)number;
    }
    return true;
}

static bool read_select(struct reader *reader, const struct select_ops **select)
{
    const char *names[SELECTION_COUNT + 1] = {NULL};
    unsigned number;

    for (size_t i = 0; i < SELECTION_COUNT; i++)
        names[i] = selections[i]->name;
    if (!read_word(reader, "select", names, &number))
        return false;
    *select = selections[number];
    return true;
}

static bool read_forward(struct reader *reader, const struct forward_ops **forward)
{
    const char *names[FORWARD_MODE_COUNT + 1] = {NULL};
    unsigned number;

    for (size_t i = 0; i < FORWARD_MODE_COUNT; i++)
        names[i] = forward_modes[i]->name;
    if (!read_word(reader, "forward", names, &number))
        return false;
    *forward = forward_modes[number];
    return true;
}

static bool read_vip(const json_t *json, size_t number, const struct program *program, struct vip *vip,
                     struct vip *probes, struct fault *fault)
{
    unsigned family, protocol, port;
    struct reader reader;
    char path[64];

    (void)snprintf(path, sizeof(path), "$.vips[%zu]", number);
    if (!reader_open(&reader, json, path, fault) || !read_name(&reader, "name", &vip->name))
        return false;
    if (!read_word(&reader, "family", families, &family) ||
        !read_address(&reader, "address", family == 0 ? 4 : 6, true, &vip->address) ||
        !read_word(&reader, "protocol", protocols, &protocol) || !read_number(&reader, "port", 1, 65535, &port) ||
        !read_select(&reader, &vip->select) || !read_forward(&reader, &vip->forward))
        return fault_about(fault, "vip", vip->name);
    vip->protocol = protocol == 0 ? 17 : 6;
    vip->port = (uint16_t)port;
    vip->number = number;
    return (read_hash_fields(&reader, vip) && read_slots(&reader, program, vip) &&
            read_probes(&reader, program, vip, probes) && reader_close(&reader)) ||
           fault_about(fault, "vip", vip->name);
}

static bool read_lists(struct reader *reader, struct program *program)
{
    const json_t *backends, *vips, *item;
    unsigned other;
    size_t i;

    if (!read_array(reader, "backends", "an array of backends", &backends) ||
        !read_array(reader, "vips", "an array of VIPs", &vips))
        return false;
    if (json_array_size(backends) > BACKENDS_MAX)
        return fault_set(reader->fault, "$.backends: found %zu backends, expected %d at most", json_array_size(backends),
                         (int)BACKENDS_MAX);
    program->backends = calloc(json_array_size(backends) + 1, sizeof(*program->backends));
    program->vips = calloc(2 * json_array_size(vips) + 1, sizeof(*program->vips));
    program->backend_numbers = json_object();
    if (program->backends == NULL || program->vips == NULL || program->backend_numbers == NULL)
        return fault_set(reader->fault, "no memory for the program");
    json_array_foreach(backends, i, item) {
        if (!read_backend(item, i, &program->backends[i], reader->fault))
            return false;
        if (find_backend(program, program->backends[i].name, &other))
            return fault_set(reader->fault, "$.backends[%zu].name: found \"%s\", which backend %u has too, expected "
                             "names of their own", i, program->backends[i].name, other);
        if (json_object_set_new(program->backend_numbers, program->backends[i].name, json_integer((json_int_t)i)) != 0)
            return fault_set(reader->fault, "no memory for the program");
        program->backend_count++;
    }
    json_array_foreach(vips, i, item) {
        struct vip *vip = &program->vips[program->vip_count];

        program->vip_count += 2; /* first: what is read of it is to be freed */
        if (!read_vip(item, i, program, vip, vip + 1, reader->fault))
            return false;
        if (vip[1].slot_count == 0)
            program->vip_count--;
        if (vip->slot_count == 0) { /* only probes reach it */
            program->vip_count--;
            *vip = vip[1];
            memset(vip + 1, 0, sizeof(*vip));
        }
        program->listed++;
    }
    return true;
}

static bool read_program(const json_t *json, struct program *program, struct fault *fault)
{
    struct reader reader;

    return reader_open(&reader, json, "$", fault) && read_version(&reader) && read_about(&reader) &&
           read_ports(&reader, program) &&
           read_tunnel(&reader, program) && read_probe(&reader, program) && read_budgets(&reader, &program->budgets) &&
           read_lists(&reader, program) && reader_close(&reader) && program_check(program, fault);
}

struct program *program_read(json_t *json, struct fault *fault)
{
    struct program *program = calloc(1, sizeof(*program));

    if (program == NULL) {
        (void)fault_set(fault, "no memory for the program");
        return NULL;
    }
    program->source = json_incref(json);
    if (json == NULL)
        (void)fault_set(fault, "$: found nothing, expected a program");
    else if (read_program(program->source, program, fault))
        return program;
    program_free(program);
    return NULL;
}

struct program *program_read_text(const char *text, size_t length, const char *what, struct fault *fault)
{
    json_t *json = read_bounded(text, length, what, "a program", fault);
    struct program *program = json != NULL ? program_read(json, fault) : NULL;

    json_decref(json);
    return program;
}

struct program *program_read_file(const char *path, struct fault *fault)
{
    FILE *file = fopen(path, "re");
    struct program *program = NULL;
    char *text = NULL;
    size_t size = 0;
    ssize_t length;

    length = file != NULL ? getdelim(&text, &size, '\0', file) : -1; /* no JSON has a NUL: this is all of it */
    if (length < 0 && (file == NULL || !feof(file)))
        (void)fault_set(fault, "%s: %s", path, strerror(errno));
    else
        program = program_read_text(length > 0 ? text : "", length > 0 ? (size_t)length : 0, path, fault);
    if (file != NULL)
        (void)fclose(file);
    free(text);
    return program;
}

void program_free(struct program *program)
{
    if (program == NULL)
        return;
    for (size_t i = 0; i < program->vip_count; i++) {
        free(program->vips[i].slots);
        free(program->vips[i].numbers);
    }
    free(program->vips);
    free(program->backends);
    json_decref(program->backend_numbers);
    json_decref(program->source);
    free(program);
}
