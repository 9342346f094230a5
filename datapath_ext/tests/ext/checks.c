/* SPDX-License-Identifier: Apache-2.0 */
#include "checks.h"

#include "leftover.h"
#include "modes/siit_answers.h"
#include "report.h"
#include "rig.h"

void set_faults(struct doca_flow_model_faults faults)
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

json_int_t of_status(const char *path)
{
    json_t *status = report_status(&rig);
    json_int_t value;

    assert_true(json_is_integer(rig_at(status, path)));
    value = json_integer_value(rig_at(status, path));
    json_decref(status);
    return value;
}

/* What is used is what is there, however it came there. */
void check_status(void)
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
void check_packets(void)
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

bool try_load(json_t *json)
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

void down_without_faults(void)
{
    rig_down();
    set_faults((struct doca_flow_model_faults){0});
}

void select_of(json_t *json, unsigned vip, const char *select)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "vips/%u/select", vip);
    rig_put(json, path, json_string(select));
}
