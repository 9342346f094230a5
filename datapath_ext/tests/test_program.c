/* SPDX-License-Identifier: Apache-2.0 */
/* What programs need around the flow API: command line, devices, ports connected from outside, log, labels. */
#include "testbed.h"

#include <doca_argp.h>
#include <doca_dev.h>
#include <doca_dpdk.h>
#include <doca_log.h>
#include <doca_version.h>

#include <unistd.h>

DOCA_LOG_REGISTER(TESTS::PROGRAM);

struct wishes {
    struct doca_dev *device;
    char devargs[32], rep_count;
    struct doca_dev_rep *reps[4];
    struct doca_dev *rep_device;
    int number;
    bool flag;
    const char *text;
};

static int eal_arguments;

static doca_error_t on_eal(int argc, char **argv)
{
    (void)argv;
    eal_arguments = argc;
    return DOCA_SUCCESS;
}

static doca_error_t on_device(void *value, void *config)
{
    const struct doca_argp_device_ctx *context = value;
    struct wishes *wishes = config;

    wishes->device = context->dev;
    (void)snprintf(wishes->devargs, sizeof(wishes->devargs), "%s", context->devargs);
    return DOCA_SUCCESS;
}

static doca_error_t on_rep(void *value, void *config)
{
    const struct doca_argp_device_rep_ctx *context = value;
    struct wishes *wishes = config;

    wishes->rep_device = context->dev_ctx.dev;
    wishes->reps[(unsigned)wishes->rep_count++] = context->dev_rep;
    return DOCA_SUCCESS;
}

static doca_error_t on_number(void *value, void *config)
{
    ((struct wishes *)config)->number = *(int *)value;
    return DOCA_SUCCESS;
}

static doca_error_t on_flag(void *value, void *config)
{
    ((struct wishes *)config)->flag = *(bool *)value;
    return DOCA_SUCCESS;
}

static doca_error_t on_text(void *value, void *config)
{
    ((struct wishes *)config)->text = value;
    return DOCA_SUCCESS;
}

static void add_param(const char *short_name, const char *long_name, enum doca_argp_type type,
                      doca_argp_param_cb_t callback)
{
    struct doca_argp_param *param;

    assert_doca_ok(doca_argp_param_create(&param));
    doca_argp_param_set_short_name(param, short_name);
    doca_argp_param_set_long_name(param, long_name);
    doca_argp_param_set_description(param, "for a test");
    doca_argp_param_set_type(param, type);
    doca_argp_param_set_callback(param, callback);
    assert_doca_ok(doca_argp_register_param(param));
}

static doca_error_t parse(struct wishes *wishes, char **argv)
{
    doca_error_t result;
    int argc = 0;

    while (argv[argc] != NULL)
        argc++;
    assert_doca_ok(doca_argp_init("program", wishes));
    add_param("a", "device", DOCA_ARGP_TYPE_DEVICE, on_device);
    add_param("r", "rep", DOCA_ARGP_TYPE_DEVICE_REP, on_rep);
    add_param("n", "number", DOCA_ARGP_TYPE_INT, on_number);
    add_param("f", "flag", DOCA_ARGP_TYPE_BOOLEAN, on_flag);
    add_param("t", "text", DOCA_ARGP_TYPE_STRING, on_text);
    doca_argp_set_dpdk_program(on_eal);
    result = doca_argp_start(argc, argv);
    assert_doca_ok(doca_argp_destroy());
    return result;
}

static void parses_the_command_line(void **state)
{
    char *good[] = {(char[]){"program"}, (char[]){"-c"}, (char[]){"1"}, (char[]){"--"},
                    (char[]){"-a"}, (char[]){"pci/08:00.0,dv_flow_en=2"}, (char[]){"--rep"},
                    (char[]){"pci/08:00.0,pf0sf[0-2]"}, (char[]){"-n"}, (char[]){"42"}, (char[]){"--flag"},
                    (char[]){"-t"}, (char[]){"words"}, (char[]){"-l"}, (char[]){"40"}, NULL};
    char *unknown[] = {(char[]){"program"}, (char[]){"--"}, (char[]){"--nothing"}, NULL};
    char *no_number[] = {(char[]){"program"}, (char[]){"--"}, (char[]){"-n"}, (char[]){"4x"}, NULL};
    char *no_value[] = {(char[]){"program"}, (char[]){"--"}, (char[]){"-n"}, NULL};
    char *twice[] = {(char[]){"program"}, (char[]){"--"}, (char[]){"-n"}, (char[]){"4"},
                     (char[]){"-n"}, (char[]){"5"}, NULL};
    struct wishes wishes = {0};
    char address[DOCA_DEVINFO_PCI_ADDR_SIZE];
    struct doca_dev *dev;
    uint16_t port;
    uint8_t equal;

    assert_doca_ok(parse(&wishes, good));
    assert_int_equal(eal_arguments, 3);
    assert_true(strcmp(wishes.devargs, "dv_flow_en=2") == 0);
    assert_int_equal(wishes.rep_count, 3);
    assert_true(wishes.rep_device == wishes.device);
    assert_int_equal(wishes.number, 42);
    assert_true(wishes.flag);
    assert_true(strcmp(wishes.text, "words") == 0);
    assert_doca_ok(doca_devinfo_get_pci_addr_str(doca_dev_as_devinfo(wishes.device), address));
    assert_true(strcmp(address, "0000:08:00.0") == 0);
    assert_doca_ok(doca_devinfo_is_equal_pci_addr(doca_dev_as_devinfo(wishes.device), "08:00.0", &equal));
    assert_int_equal(equal, 1);

    /* Ports are numbered as they are probed; representors follow their device. */
    assert_doca_ok(doca_dpdk_port_probe_with_representors(wishes.device, "", wishes.reps, 3));
    assert_doca_ok(doca_dpdk_get_first_port_id(wishes.device, &port));
    assert_doca_ok(doca_dpdk_port_as_dev(port, &dev));
    assert_true(dev == wishes.device);
    assert_doca_refused(doca_dpdk_port_as_dev((uint16_t)(port + 1), &dev), DOCA_ERROR_NOT_FOUND, "no device was probed");
    for (unsigned i = 0; i < 3; i++)
        assert_doca_ok(doca_dev_rep_close(wishes.reps[i]));
    assert_doca_ok(doca_dev_close(wishes.device));

    assert_doca_refused(parse(&wishes, unknown), DOCA_ERROR_INVALID_VALUE, "--nothing is not known");
    assert_doca_refused(parse(&wishes, no_number), DOCA_ERROR_INVALID_VALUE, "no whole number");
    assert_doca_refused(parse(&wishes, no_value), DOCA_ERROR_INVALID_VALUE, "without a value");
    assert_doca_refused(parse(&wishes, twice), DOCA_ERROR_INVALID_VALUE, "second time");
}

static void a_port_that_cannot_be_connected_starts_all_the_same(void **state)
{
    struct doca_flow_fwd fwd = to_port(1);
    struct frame frame;

    assert_int_equal(setenv("DOCA_FLOW_MODEL_PORTS", "0=netdev:no-such-device 1=file:x", 1), 0);
    testbed_up("vnf,hws", 2);
    assert_int_equal(unsetenv("DOCA_FLOW_MODEL_PORTS"), 0);
    (void)testbed_all(0, &fwd);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_SENT);
    testbed_down();
}

static void swaps_bytes_and_names_versions(void **state)
{
    static const uint32_t mask = DOCA_BE32_GENMASK(15, 0), ports[] = {DOCA_HTOBE16(80), DOCA_HTOBE32(0x01020304)};

    assert_true(memcmp(&ports[1], "\1\2\3\4", 4) == 0);
    assert_int_equal(DOCA_BE32_SET(mask, 0xaabb), DOCA_HTOBE32(0x0000aabb));
    assert_int_equal(DOCA_BE32_GET(DOCA_HTOBE32(0x1234aabb), mask), 0xaabb);
    assert_int_equal(DOCA_BE32_GET(DOCA_HTOBE32(0x1234aabb), DOCA_BE32_GENMASK(31, 24)), 0x12);
    assert_int_equal(DOCA_U16_GENMASK(11, 4), 0x0ff0);
    assert_true(DOCA_VERSION_EQ_CURRENT(3, 3, 0));
    assert_true(DOCA_VERSION_LTE_CURRENT(3, 2, 2));
    assert_true(!DOCA_VERSION_LTE_CURRENT(3, 4, 0));
    assert_true(strcmp(doca_error_get_name(DOCA_ERROR_FULL), "DOCA_ERROR_FULL") == 0);
    assert_doca_ok(doca_log_backend_create_standard());
    DOCA_LOG_INFO("said once, by %s", "TESTS::PROGRAM");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_the_command_line),
        cmocka_unit_test(a_port_that_cannot_be_connected_starts_all_the_same),
        cmocka_unit_test(swaps_bytes_and_names_versions),
    };

    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
