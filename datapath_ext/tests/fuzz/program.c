/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as programs, one per line: the first is what the engine starts with, the others are loads. What is accepted
 * has to serve all of its VIPs; what is refused has to say why and to leave the VIPs served that were. */
#include "target.h"

#include "../ext/rig.h"
#include "log.h"
#include "report.h"

enum { VIPS_TRIED = 12 };

/* Every reason is to be sent to a client as JSON, hence UTF-8. */
static void check_fault(const struct fault *fault)
{
    json_t *text = json_string(fault->text);

    assert_true(text != NULL && json_string_length(text) > 0);
    json_decref(text);
}

static void put_address(struct frame *frame, size_t at, const struct address *address)
{
    memcpy(frame->bytes + at, address->bytes, address->family == 4 ? 4 : 16);
}

/* A packet with these addresses and correct checksums: text is not needed for them. */
static void make_frame(struct frame *frame, const struct address *src, const struct address *dst, uint8_t protocol,
                       uint16_t src_port, uint16_t dst_port)
{
    bool ip4 = dst->family == 4;

    frame_start(frame);
    frame_eth(frame, "02:00:00:00:00:01", "02:00:00:00:00:02", ip4 ? 0x0800 : 0x86dd);
    frame_ip(frame, (struct ip){.src = ip4 ? "192.0.2.9" : "2001:db8::9", .dst = ip4 ? "192.0.2.9" : "2001:db8::9",
                                .proto = protocol});
    put_address(frame, ip4 ? 26 : 22, src);
    put_address(frame, ip4 ? 30 : 38, dst);
    if (protocol == 6)
        frame_tcp(frame, src_port, dst_port);
    else
        frame_udp(frame, src_port, dst_port);
    frame_finish(frame);
}

static void check_answer(const struct vip *vip)
{
    const struct backend *backend = &rig.program->backends[vip->slots[0]];
    const struct address client = {.family = 6, .bytes = {0, 0x64, 0xff, 0x9b, [12] = 192, 0, 2, 9}};
    struct doca_flow_model_result result;
    static struct frame frame;

    make_frame(&frame, &backend->address, &client, vip->protocol, vip->port, 1000);
    result = rig_send(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    assert_true(memcmp(result.outputs[0].frame + 26, vip->address.bytes, 4) == 0);
    doca_flow_model_result_free(&result);
}

/* Every VIP sends its queries to a backend of its own. */
static void check_vip(const struct vip *vip)
{
    struct address client = {.family = vip->address.family, .bytes = {192, 0, 2, 9}};
    struct doca_flow_model_result result;
    static struct frame frame;
    bool found = false;

    make_frame(&frame, &client, &vip->address, vip->protocol, 1000, vip->port);
    result = rig_send(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    for (unsigned i = 0; i < vip->slot_count && !found; i++)
        found = memcmp(result.outputs[0].frame, rig.program->backends[vip->slots[i]].mac, 6) == 0;
    assert_true(found);
    doca_flow_model_result_free(&result);
    if (vip->forward == &forward_siit)
        check_answer(vip);
}

static void check_engine(void)
{
    assert_true(rig.consistent);
    for (size_t i = 0; i < rig.program->vip_count && i < VIPS_TRIED; i++)
        check_vip(&rig.program->vips[i]);
    json_decref(report_status(&rig));
    json_decref(report_dump(&rig));
    assert_int_equal(rig_missed(), 0);
}

/* The next line as a program, or NULL; *data goes behind it. */
static struct program *next_program(const uint8_t **data, size_t *size)
{
    const uint8_t *end = memchr(*data, '\n', *size);
    size_t length = end != NULL ? (size_t)(end - *data) : *size;
    struct fault fault = {0};
    struct program *program = program_read_text((const char *)*data, length, "$", &fault);

    if (program == NULL)
        check_fault(&fault);
    *data += length + (end != NULL);
    *size -= length + (end != NULL);
    return program;
}

static void load(struct program *program)
{
    struct fault fault = {0};
    bool done = engine_load(&rig, program, &fault);

    if (done)
        assert_true(rig.program == program);
    else
        check_fault(&fault);
    check_engine();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program *program;
    struct fault fault = {0};
    static bool up;

    if (!up) {
        log_set_level(LOG_NOTHING);
        doca_flow_model_set_strict(true);
        assert_doca_ok(doca_flow_model_device_add("ext-in"));
        assert_doca_ok(doca_flow_model_device_add("ext-out"));
        up = true;
    }
    if (size == 0)
        return 0;
    program = next_program(&data, &size);
    if (program == NULL)
        return 0;
    if (!engine_open(&rig, program, &fault)) {
        check_fault(&fault);
        return 0;
    }
    check_engine();
    while (size > 0) {
        program = next_program(&data, &size);
        if (program != NULL)
            load(program);
    }
    engine_close(&rig);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    return mutate_json_lines(data, size, room, seed);
}

/* Each example alone, each followed by the next one, and all of them. */
void each_seed(seed_user use)
{
    static const char *const names[] = {"l2-slots", "l2-client", "l2-spray", "ipip", "siit"};
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    static char all[1 << 16];
    char *texts[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        json_t *json = rig_json(names[i]);

        texts[i] = json_dumps(json, JSON_COMPACT);
        assert_true(texts[i] != NULL);
        json_decref(json);
        use(names[i], (const uint8_t *)texts[i], strlen(texts[i]));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(all, sizeof(all), "%s\n%s\n%s", texts[i], texts[(i + 1) % COUNT], texts[i]);
        use(i == 0 ? "reload0" : i == 1 ? "reload1" : i == 2 ? "reload2" : i == 3 ? "reload3" : "reload4",
            (const uint8_t *)all, strlen(all));
    }
    for (unsigned i = 0; i < COUNT; i++)
        free(texts[i]);
}
