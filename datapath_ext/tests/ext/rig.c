/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "report.h"

struct engine rig;

json_t *rig_json(const char *name)
{
    json_error_t error;
    char path[512];
    json_t *json;

    (void)snprintf(path, sizeof(path), "%s/%s.json", PROGRAMS, name);
    json = json_load_file(path, 0, &error);
    assert_true(json != NULL);
    return json;
}

static json_t *step(json_t *json, const char *key)
{
    if (json_is_array(json))
        return json_array_get(json, strtoul(key, NULL, 10));
    return json_object_get(json, key);
}

json_t *rig_at(json_t *json, const char *path)
{
    char key[64];

    while (*path != '\0') {
        size_t length = strcspn(path, "/");

        assert_true(length < sizeof(key));
        memcpy(key, path, length);
        key[length] = '\0';
        json = step(json, key);
        path += length + (path[length] == '/');
    }
    return json;
}

void rig_put(json_t *json, const char *path, json_t *value)
{
    const char *slash = strrchr(path, '/'), *key = slash != NULL ? slash + 1 : path;
    char parent[256];
    json_t *at;

    (void)snprintf(parent, sizeof(parent), "%.*s", slash != NULL ? (int)(slash - path) : 0, path);
    at = rig_at(json, parent);
    assert_true(at != NULL);
    if (value == NULL)
        assert_int_equal(json_is_array(at) ? json_array_remove(at, strtoul(key, NULL, 10)) : json_object_del(at, key), 0);
    else if (json_is_array(at) && strtoul(key, NULL, 10) == json_array_size(at))
        assert_int_equal(json_array_append_new(at, value), 0);
    else
        assert_int_equal(json_is_array(at) ? json_array_set_new(at, strtoul(key, NULL, 10), value)
                                           : json_object_set_new(at, key, value), 0);
}

unsigned rig_random_below(unsigned *seed, unsigned limit)
{
    *seed = *seed * 1103515245U + 12345U;
    return (*seed >> 8) % limit;
}

static void put_of_vip(json_t *json, unsigned vip, const char *key, json_t *value)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "vips/%u/%s", vip, key);
    rig_put(json, path, value);
}

void rig_put_vip(json_t *json, unsigned vip, const char *forward, const char *select, unsigned slots, unsigned *seed)
{
    json_t *owners = json_array();

    for (unsigned i = 0; i < slots; i++)
        assert_int_equal(json_array_append_new(owners, json_string(rig_random_below(seed, 2) ? "b1" : "b2")), 0);
    put_of_vip(json, vip, "slots", owners);
    put_of_vip(json, vip, "forward", json_string(forward));
    put_of_vip(json, vip, "select", json_string(select));
    if (strcmp(select, "client") == 0)
        put_of_vip(json, vip, "hash_fields", json_pack("[s]", "src_port"));
}

static struct program *read_json(json_t *json)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);

    if (program == NULL)
        fail_msg("%s", fault.text);
    json_decref(json);
    return program;
}

void rig_up_json(json_t *json)
{
    struct fault fault = {0};
    struct program *program = read_json(json);

    assert_doca_ok(doca_flow_model_device_add(program->in));
    assert_doca_ok(doca_flow_model_device_add(program->out));
    doca_flow_model_seed(1);
    if (!engine_open(&rig, program, &fault))
        fail_msg("%s", fault.text);
}

void rig_up(const char *name)
{
    rig_up_json(rig_json(name));
}

void rig_down(void)
{
    engine_close(&rig);
}

void rig_load(json_t *json)
{
    struct fault fault = {0};

    if (!engine_load(&rig, read_json(json), &fault))
        fail_msg("%s", fault.text);
}

void rig_refuse(json_t *json, const char *text)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);

    json_decref(json);
    if (program != NULL)
        assert_true(!engine_load(&rig, program, &fault));
    if (strstr(fault.text, text) == NULL)
        fail_msg("found \"%s\", expected \"%s\"", fault.text, text);
    assert_true(rig.consistent);
}

void rig_frame(struct frame *frame, struct rig_packet packet)
{
    frame_packet(frame, packet.src, packet.dst, packet.protocol == 0 ? 17 : packet.protocol, packet.src_port,
                 packet.dst_port == 0 ? 53 : packet.dst_port);
}

struct doca_flow_model_result rig_send(uint16_t port, const struct frame *frame, enum doca_flow_model_verdict verdict)
{
    struct doca_flow_model_result result;

    assert_doca_ok(doca_flow_model_receive(port, frame->bytes, frame->length, &result));
    assert_int_equal(result.count, 1);
    if (result.outputs[0].verdict != verdict)
        fail_msg("%s, expected %s: %s", doca_flow_model_verdict_name(result.outputs[0].verdict),
                 doca_flow_model_verdict_name(verdict), result.outputs[0].reason);
    if (verdict == DOCA_FLOW_MODEL_SENT) {
        assert_int_equal(result.outputs[0].port_id, 1 - port);
        assert_true(frame_checksums_ok(result.outputs[0].frame, result.outputs[0].length));
    }
    return result;
}

void rig_expect(uint16_t port, const struct frame *frame, enum doca_flow_model_verdict verdict)
{
    struct doca_flow_model_result result = rig_send(port, frame, verdict);

    doca_flow_model_result_free(&result);
}

unsigned rig_backend(struct rig_packet packet)
{
    struct doca_flow_model_result result;
    struct frame frame;
    unsigned backend;

    rig_frame(&frame, packet);
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    backend = result.outputs[0].frame[5];
    doca_flow_model_result_free(&result);
    return backend;
}

unsigned rig_backend_unchanged(struct rig_packet packet)
{
    struct doca_flow_model_result result;
    struct frame frame;
    unsigned backend;

    rig_frame(&frame, packet);
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    backend = result.outputs[0].frame[5];
    assert_int_equal(result.outputs[0].length, frame.length);
    assert_true(memcmp(result.outputs[0].frame + 6, frame.bytes + 6, frame.length - 6) == 0);
    assert_true(memcmp(result.outputs[0].frame, "\x02\0\0\0\0", 5) == 0);
    doca_flow_model_result_free(&result);
    return backend;
}

json_int_t rig_counter(const char *path)
{
    struct fault fault = {0};
    json_t *json = report_counters(&rig, &fault), *found;
    json_int_t value;

    assert_true(json != NULL);
    found = rig_at(json, path);
    assert_true(json_is_integer(found));
    value = json_integer_value(found);
    json_decref(json);
    return value;
}

json_int_t rig_missed(void)
{
    return rig_counter("dropped/missed");
}
