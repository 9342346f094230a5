/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which DPDK, DOCA Flow and the devices are opened and closed with the SDK: the model, and platform_dpdk.c
 * on functions that record their calls. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <doca_dev.h>
#include <doca_dpdk.h>
#include <sched.h>

#include "platform.h"
#include "rig.h"

int rte_errno;

enum { MTU_MOST = 9978, HEADERS = 14 + 2 * 4 + 4 }; /* what these cards take; Ethernet, two VLAN tags, checksum */

static char seen[2048];          /* calls, each with a line of its own */
static char arguments[10][256];  /* of DPDK's environment */
static int argument_count;
static const char *failing = ""; /* the call that fails */
static uint16_t probed;
static char pool;
static uint16_t mtu[PORTS] = {1600, 1540};
static bool promiscuous[PORTS];

static bool saw(const char *call, int number)
{
    size_t used = strlen(seen);
    char text[48];

    (void)snprintf(text, sizeof(text), number < 0 ? "%s" : "%s %d", call, number);
    (void)snprintf(seen + used, sizeof(seen) - used, "%s\n", text);
    return strcmp(text, failing) != 0;
}

const char *rte_strerror(int error)
{
    return strerror(error);
}

int rte_eal_init(int argc, char **argv)
{
    assert_true(argv[argc] == NULL);
    assert_true(argc <= 10);
    argument_count = argc;
    for (int i = 0; i < argc; i++)
        (void)snprintf(arguments[i], sizeof(arguments[i]), "%s", argv[i]);
    probed = 0;
    return saw("environment", -1) ? 0 : -1;
}

int rte_eal_cleanup(void)
{
    (void)saw("no environment", -1);
    return 0;
}

struct rte_mempool *rte_pktmbuf_pool_create(const char *name, unsigned count, unsigned cache, uint16_t private_size,
                                            uint16_t room, int socket)
{
    (void)name;
    (void)count;
    (void)cache;
    (void)private_size;
    (void)socket;
    assert_true(room >= RTE_PKTMBUF_HEADROOM + HEADERS + MTU_MOST); /* or the driver refuses the queue */
    return saw("buffers", -1) ? (struct rte_mempool *)&pool : NULL;
}

void rte_mempool_free(struct rte_mempool *given)
{
    if (given != NULL)
        (void)saw("no buffers", -1);
}

int rte_eth_dev_configure(uint16_t port, uint16_t receive_queues, uint16_t send_queues, const struct rte_eth_conf *conf)
{
    assert_int_equal(receive_queues, 1);
    assert_int_equal(send_queues, 1);
    mtu[port] = conf->rxmode.mtu != 0 ? (uint16_t)conf->rxmode.mtu : 1500; /* as DPDK */
    return saw("configure", port) ? 0 : -22;
}

int rte_eth_dev_get_mtu(uint16_t port, uint16_t *found)
{
    *found = mtu[port];
    return saw("mtu", port) ? 0 : -19;
}

int rte_eth_promiscuous_enable(uint16_t port)
{
    promiscuous[port] = saw("promiscuous", port);
    return promiscuous[port] ? 0 : -1;
}

int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_rxconf *conf, struct rte_mempool *given)
{
    (void)port;
    (void)queue;
    (void)descriptors;
    (void)socket;
    (void)conf;
    assert_true(given != NULL);
    return 0;
}

int rte_eth_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_txconf *conf)
{
    (void)port;
    (void)queue;
    (void)descriptors;
    (void)socket;
    (void)conf;
    return 0;
}

int rte_eth_dev_start(uint16_t port)
{
    return saw("start", port) ? 0 : -5;
}

int rte_eth_dev_stop(uint16_t port)
{
    (void)saw("stop", port);
    return 0;
}

int rte_eth_dev_close(uint16_t port)
{
    (void)saw("close", port);
    return 0;
}

doca_error_t __real_doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev);
doca_error_t __wrap_doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev);
doca_error_t __real_doca_dev_close(struct doca_dev *dev);
doca_error_t __wrap_doca_dev_close(struct doca_dev *dev);
doca_error_t __wrap_doca_dpdk_get_first_port_id(const struct doca_dev *dev, uint16_t *port);
doca_error_t __real_doca_flow_init(struct doca_flow_cfg *cfg);
doca_error_t __wrap_doca_flow_init(struct doca_flow_cfg *cfg);
void __real_doca_flow_destroy(void);
void __wrap_doca_flow_destroy(void);
doca_error_t __real_doca_flow_port_stop(struct doca_flow_port *port);
doca_error_t __wrap_doca_flow_port_stop(struct doca_flow_port *port);

doca_error_t __wrap_doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev)
{
    (void)saw("device", -1);
    return __real_doca_dev_open(info, dev);
}

doca_error_t __wrap_doca_dev_close(struct doca_dev *dev)
{
    (void)saw("no device", -1);
    return __real_doca_dev_close(dev);
}

/* DPDK gives numbers anew once ports are closed; the model counts on. */
doca_error_t __wrap_doca_dpdk_get_first_port_id(const struct doca_dev *dev, uint16_t *port)
{
    (void)dev;
    *port = probed++;
    return saw("probe", *port) ? DOCA_SUCCESS : DOCA_ERROR_NOT_FOUND;
}

doca_error_t __wrap_doca_flow_init(struct doca_flow_cfg *cfg)
{
    return saw("flow", -1) ? __real_doca_flow_init(cfg) : DOCA_ERROR_DRIVER;
}

void __wrap_doca_flow_destroy(void)
{
    (void)saw("no flow", -1);
    __real_doca_flow_destroy();
}

doca_error_t __wrap_doca_flow_port_stop(struct doca_flow_port *port)
{
    (void)saw("flow port stops", -1);
    return __real_doca_flow_port_stop(port);
}

#define PORT_UP(N) "probe " #N "\nmtu " #N "\nconfigure " #N "\npromiscuous " #N "\nstart " #N "\n"

static void expect(const char *calls)
{
    assert_string_equal(seen, calls);
    seen[0] = '\0';
}

static void closes_in_the_reverse_order(void **state)
{
    rig_up("l2-slots");
    expect("environment\nbuffers\ndevice\n" PORT_UP(0) "device\n" PORT_UP(1) "flow\n");
    rig_down();
    expect("flow port stops\nflow port stops\nno flow\n"
           "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n");
}

/* Each call that fails, and what is closed then. */
static void closes_what_was_opened(void **state)
{
    static const struct {
        const char *call, *calls, *reason;
    } cases[] = {
        {"environment", "environment\n", "DPDK's environment: "},
        {"buffers", "environment\nbuffers\nno environment\n", "DPDK's buffers: "},
        {"probe 0", "environment\nbuffers\ndevice\nprobe 0\nno buffers\nno environment\nno device\n",
         "probing the device of port 0: "},
        {"mtu 0", "environment\nbuffers\ndevice\nprobe 0\nmtu 0\n"
                  "stop 0\nclose 0\nno buffers\nno environment\nno device\n",
         "DPDK's port 0, its MTU: No such device"},
        {"configure 0", "environment\nbuffers\ndevice\nprobe 0\nmtu 0\nconfigure 0\n"
                        "stop 0\nclose 0\nno buffers\nno environment\nno device\n",
         "DPDK's port 0, configuration: Invalid argument"},
        {"promiscuous 0", "environment\nbuffers\ndevice\nprobe 0\nmtu 0\nconfigure 0\npromiscuous 0\n"
                          "stop 0\nclose 0\nno buffers\nno environment\nno device\n",
         "DPDK's port 0, promiscuous mode, without which no query comes in (the function must be trusted): Operation"},
        {"start 1", "environment\nbuffers\ndevice\n" PORT_UP(0) "device\n" PORT_UP(1)
                    "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n",
         "DPDK's port 1, start: "},
        {"flow", "environment\nbuffers\ndevice\n" PORT_UP(0) "device\n" PORT_UP(1) "flow\n"
                 "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n",
         "starting DOCA Flow: "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *json = rig_json("l2-slots");
        struct fault fault = {0};
        struct program *program = program_read(json, &fault);
        struct engine engine;

        json_decref(json);
        failing = cases[i].call;
        assert_true(!engine_open(&engine, program, &fault));
        failing = "";
        expect(cases[i].calls);
        if (strncmp(fault.text, cases[i].reason, strlen(cases[i].reason)) != 0)
            fail_msg("found \"%s\", expected \"%s\"", fault.text, cases[i].reason);
    }
}

/* Only what the program names is probed: each bus that BlueField has devices on has a list of its own. */
static void lets_dpdk_probe_nothing(void **state)
{
    bool pci = false, auxiliary = false;

    rig_up("l2-slots");
    rig_down();
    seen[0] = '\0';
    for (int i = 0; i + 1 < argument_count; i++) {
        if (strcmp(arguments[i], "-a") != 0)
            continue;
        pci = pci || strcmp(arguments[i + 1], "pci:00:00.0") == 0;
        auxiliary = auxiliary || strcmp(arguments[i + 1], "auxiliary:") == 0;
    }
    assert_true(pci);
    assert_true(auxiliary);
}

/* Queries and probes have other MAC addresses than the functions, and tunnels are longer than 1500 bytes. */
static void takes_all_addresses_and_keeps_the_mtu(void **state)
{
    memset(promiscuous, 0, sizeof(promiscuous));
    rig_up("ipip");
    for (unsigned i = 0; i < PORTS; i++)
        assert_true(promiscuous[i]);
    assert_int_equal(mtu[PORT_IN], 1600);
    assert_int_equal(mtu[PORT_OUT], 1540);
    assert_int_equal(rig.dataplane.flow.ports[PORT_OUT].mtu, 1540);
    assert_int_equal(rig.dataplane.flow.ports[PORT_OUT].mtu_told, 0);
    rig_down();
    mtu[PORT_OUT] = 1539; /* enough for tunnels over IPv4 only */
    rig_up("ipip");
    assert_int_equal(rig.dataplane.flow.ports[PORT_OUT].mtu_told, 1U << 6);
    rig_down();
    seen[0] = '\0';
}

/* The value of an option of DPDK's environment; NULL: it is not there. */
static const char *option(const char *name)
{
    for (int i = 0; i + 1 < argument_count; i++)
        if (strcmp(arguments[i], name) == 0)
            return arguments[i + 1];
    return NULL;
}

/* One thread, on any core that the process may run on, or on the one that is asked for. */
static void has_one_thread(void **state)
{
    cpu_set_t before, some;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    rig_up("l2-slots");
    rig_down();
    assert_true(strncmp(option("--lcores"), "0@(", 3) == 0);

    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before)) { /* the first alone */
            char expected[32];

            CPU_ZERO(&some);
            CPU_SET(i, &some);
            assert_int_equal(sched_setaffinity(0, sizeof(some), &some), 0);
            rig_up("l2-slots");
            rig_down();
            (void)snprintf(expected, sizeof(expected), "0@(%u)", i);
            assert_string_equal(option("--lcores"), expected);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);

    platform_set_core(3);
    rig_up("l2-slots");
    rig_down();
    platform_set_core(ANY_CORE);
    assert_string_equal(option("--lcores"), "0@3");
    seen[0] = '\0';
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(closes_in_the_reverse_order),
        cmocka_unit_test(closes_what_was_opened),
        cmocka_unit_test(lets_dpdk_probe_nothing),
        cmocka_unit_test(takes_all_addresses_and_keeps_the_mtu),
        cmocka_unit_test(has_one_thread),
    };

    return cmocka_run_group_tests_name("ext_platform", tests, NULL, NULL);
}
