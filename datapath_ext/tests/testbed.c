/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed.h"

#include <doca_dev.h>
#include <doca_log.h>

struct doca_flow_port *testbed_port[TESTBED_PORTS];

static struct doca_dev *devices[TESTBED_PORTS];
static struct doca_dev_rep *reps[TESTBED_PORTS];
static unsigned port_count;

static void on_entry(struct doca_flow_pipe_entry *entry, uint16_t queue, enum doca_flow_entry_status status,
                     enum doca_flow_entry_op op, void *user_ctx)
{
    struct seen *seen = user_ctx;

    (void)entry;
    (void)queue;
    if (seen == NULL)
        return;
    if (status != DOCA_FLOW_ENTRY_STATUS_SUCCESS)
        seen->errors++;
    switch (op) {
    case DOCA_FLOW_ENTRY_OP_ADD:
        seen->adds++;
        break;
    case DOCA_FLOW_ENTRY_OP_DEL:
        seen->removals++;
        break;
    case DOCA_FLOW_ENTRY_OP_UPD:
        seen->updates++;
        break;
    case DOCA_FLOW_ENTRY_OP_AGED:
    default:
        seen->aged++;
        break;
    }
}

static struct doca_dev *open_device(unsigned number)
{
    struct doca_devinfo **list;
    struct doca_dev *dev;
    uint32_t count;
    char name[32];

    (void)snprintf(name, sizeof(name), "test%u", number);
    assert_doca_ok(doca_flow_model_device_add(name));
    assert_doca_ok(doca_devinfo_create_list(&list, &count));
    assert_true(count > number);
    assert_doca_ok(doca_dev_open(list[number], &dev));
    assert_doca_ok(doca_devinfo_destroy_list(list));
    return dev;
}

/* Representors of the manager's device, as switch mode has them. */
static struct doca_dev_rep *open_rep(unsigned number)
{
    struct doca_devinfo_rep **list;
    struct doca_dev_rep *rep;
    uint32_t count;
    char name[32];

    (void)snprintf(name, sizeof(name), "test0,rep%u", number);
    assert_doca_ok(doca_flow_model_device_add(name));
    assert_doca_ok(doca_devinfo_rep_create_list(devices[0], DOCA_DEVINFO_REP_FILTER_NET, &list, &count));
    assert_true(count >= number);
    assert_doca_ok(doca_dev_rep_open(list[number - 1], &rep));
    assert_doca_ok(doca_devinfo_rep_destroy_list(list));
    return rep;
}

static void start_port(unsigned number)
{
    struct doca_flow_port_cfg *cfg;

    assert_doca_ok(doca_flow_port_cfg_create(&cfg));
    assert_doca_ok(doca_flow_port_cfg_set_port_id(cfg, (uint16_t)number));
    if (reps[number] != NULL)
        assert_doca_ok(doca_flow_port_cfg_set_dev_rep(cfg, reps[number]));
    else
        assert_doca_ok(doca_flow_port_cfg_set_dev(cfg, devices[number]));
    for (enum doca_flow_resource type = 0; type <= DOCA_FLOW_RESOURCE_IPSEC_SA; type++)
        assert_doca_ok(doca_flow_port_cfg_set_nr_resources(cfg, type, TESTBED_BUDGET));
    assert_doca_ok(doca_flow_port_start(cfg, &testbed_port[number]));
    assert_doca_ok(doca_flow_port_cfg_destroy(cfg));
}

static doca_flow_entry_process_cb entry_cb = on_entry;
static doca_flow_pipe_process_cb pipe_cb;

void testbed_callbacks(doca_flow_entry_process_cb entry, doca_flow_pipe_process_cb pipe)
{
    entry_cb = entry;
    pipe_cb = pipe;
}

void testbed_up(const char *mode, unsigned ports)
{
    struct doca_log_backend *sdk_log;
    struct doca_flow_cfg *cfg;

    if (getenv("VERBOSE") != NULL)
        assert_doca_ok(doca_log_backend_create_with_file_sdk(stderr, &sdk_log));
    assert_doca_ok(doca_flow_cfg_create(&cfg));
    assert_doca_ok(doca_flow_cfg_set_mode_args(cfg, mode));
    assert_doca_ok(doca_flow_cfg_set_pipe_queues(cfg, TESTBED_QUEUES));
    assert_doca_ok(doca_flow_cfg_set_resource_mode(cfg, DOCA_FLOW_RESOURCE_MODE_PORT));
    assert_doca_ok(doca_flow_cfg_set_cb_entry_process(cfg, entry_cb));
    assert_doca_ok(doca_flow_cfg_set_cb_pipe_process(cfg, pipe_cb));
    assert_doca_ok(doca_flow_init(cfg));
    assert_doca_ok(doca_flow_cfg_destroy(cfg));
    doca_flow_model_seed(1);
    doca_flow_model_set_strict(false);
    for (port_count = 0; port_count < ports; port_count++) {
        devices[port_count] = NULL;
        reps[port_count] = NULL;
        if (port_count > 0 && strncmp(mode, "switch", 6) == 0)
            reps[port_count] = open_rep(port_count);
        else
            devices[port_count] = open_device(port_count);
        start_port(port_count);
    }
}

void testbed_down(void)
{
    while (port_count > 0) {
        port_count--;
        assert_doca_ok(doca_flow_port_stop(testbed_port[port_count]));
        if (reps[port_count] != NULL)
            assert_doca_ok(doca_dev_rep_close(reps[port_count]));
        else
            assert_doca_ok(doca_dev_close(devices[port_count]));
    }
    doca_flow_destroy();
    testbed_callbacks(on_entry, NULL);
}

struct doca_flow_pipe_cfg *testbed_cfg(unsigned port, const char *name, enum doca_flow_pipe_type type, bool root)
{
    struct doca_flow_pipe_cfg *cfg;

    assert_doca_ok(doca_flow_pipe_cfg_create(&cfg, testbed_port[port]));
    assert_doca_ok(doca_flow_pipe_cfg_set_name(cfg, name));
    assert_doca_ok(doca_flow_pipe_cfg_set_type(cfg, type));
    assert_doca_ok(doca_flow_pipe_cfg_set_is_root(cfg, root));
    return cfg;
}

struct doca_flow_pipe *testbed_create(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                                    const struct doca_flow_fwd *miss)
{
    struct doca_flow_pipe *pipe;

    assert_doca_ok(doca_flow_pipe_create(cfg, fwd, miss, &pipe));
    assert_doca_ok(doca_flow_pipe_cfg_destroy(cfg));
    return pipe;
}

void testbed_process(unsigned port)
{
    assert_doca_ok(doca_flow_entries_process(testbed_port[port], 0, 0, 0));
}

struct doca_flow_pipe *testbed_all(unsigned port, const struct doca_flow_fwd *fwd)
{
    struct doca_flow_match match = {0};
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(port, "all", DOCA_FLOW_PIPE_BASIC, true);
    struct doca_flow_pipe *pipe;

    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    pipe = testbed_create(cfg, fwd, NULL);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, NULL, 0, NULL, NULL));
    testbed_process(port);
    return pipe;
}

struct doca_flow_fwd to_port(uint16_t id)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_PORT, .port_id = id};
}

struct doca_flow_fwd to_pipe(struct doca_flow_pipe *pipe)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_PIPE, .next_pipe = pipe};
}

struct doca_flow_fwd to_drop(void)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_DROP};
}

struct doca_flow_model_result testbed_send(unsigned port, const struct frame *frame,
                                         enum doca_flow_model_verdict verdict)
{
    struct doca_flow_model_result result;

    assert_doca_ok(doca_flow_model_receive((uint16_t)port, frame->bytes, frame->length, &result));
    assert_int_equal(result.count, 1);
    if (result.outputs[0].verdict != verdict) {
        (void)fprintf(stderr, "%s, expected %s: %s\n", doca_flow_model_verdict_name(result.outputs[0].verdict),
                      doca_flow_model_verdict_name(verdict), result.outputs[0].reason);
        abort();
    }
    return result;
}

void testbed_expect(unsigned port, const struct frame *frame, enum doca_flow_model_verdict verdict)
{
    struct doca_flow_model_result result = testbed_send(port, frame, verdict);

    doca_flow_model_result_free(&result);
}

static void print_bytes(const char *what, const uint8_t *bytes, size_t length)
{
    (void)fprintf(stderr, "%s, %zu bytes:", what, length);
    for (size_t i = 0; i < length && i < 128; i++)
        (void)fprintf(stderr, "%s%02x", i % 16 == 0 ? "\n  " : " ", bytes[i]);
    (void)fputc('\n', stderr);
}

void testbed_expect_frame(unsigned in, const struct frame *frame, unsigned out, const struct frame *expected)
{
    struct doca_flow_model_result result = testbed_send(in, frame, DOCA_FLOW_MODEL_SENT);
    const struct doca_flow_model_output *output = &result.outputs[0];

    assert_int_equal(output->port_id, out);
    if (output->length != expected->length || memcmp(output->frame, expected->bytes, output->length) != 0) {
        print_bytes("found", output->frame, output->length);
        print_bytes("expected", expected->bytes, expected->length);
        abort();
    }
    doca_flow_model_result_free(&result);
}

uint64_t testbed_packets(struct doca_flow_pipe_entry *entry)
{
    struct doca_flow_resource_query query;

    assert_doca_ok(doca_flow_resource_query_entry(entry, &query));
    return query.counter.total_pkts;
}
