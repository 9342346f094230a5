/* The order in which DPDK, DOCA Flow and the devices are opened and closed with the SDK: the model, and platform_dpdk.c
 * on functions that record their calls. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <doca_dev.h>
#include <doca_dpdk.h>

#include "rig.h"

int rte_errno;

static char seen[2048];          /* calls, each with a line of its own */
static char arguments[8][32];    /* of DPDK's environment */
static int argument_count;
static const char *failing = ""; /* the call that fails */
static uint16_t probed;
static char pool;

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
    assert_true(argc <= 8);
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
    (void)room;
    (void)socket;
    return saw("buffers", -1) ? (struct rte_mempool *)&pool : NULL;
}

void rte_mempool_free(struct rte_mempool *given)
{
    if (given != NULL)
        (void)saw("no buffers", -1);
}

int rte_eth_dev_configure(uint16_t port, uint16_t receive_queues, uint16_t send_queues, const struct rte_eth_conf *conf)
{
    (void)port;
    (void)conf;
    assert_int_equal(receive_queues, 1);
    assert_int_equal(send_queues, 1);
    return 0;
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

static void expect(const char *calls)
{
    assert_string_equal(seen, calls);
    seen[0] = '\0';
}

static void closes_in_the_reverse_order(void **state)
{
    rig_up("l2-slots");
    expect("environment\nbuffers\ndevice\nprobe 0\nstart 0\ndevice\nprobe 1\nstart 1\nflow\n");
    rig_down();
    expect("flow port stops\nflow port stops\nno flow\n"
           "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n");
}

/* Each call that fails, and what is closed then. */
static void closes_what_was_opened(void **state)
{
    static const struct {
        const char *call, *calls;
    } cases[] = {
        {"environment", "environment\n"},
        {"buffers", "environment\nbuffers\nno environment\n"},
        {"probe 0", "environment\nbuffers\ndevice\nprobe 0\nno buffers\nno environment\nno device\n"},
        {"start 1", "environment\nbuffers\ndevice\nprobe 0\nstart 0\ndevice\nprobe 1\nstart 1\n"
                    "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n"},
        {"flow", "environment\nbuffers\ndevice\nprobe 0\nstart 0\ndevice\nprobe 1\nstart 1\nflow\n"
                 "stop 1\nclose 1\nstop 0\nclose 0\nno buffers\nno environment\nno device\nno device\n"},
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(closes_in_the_reverse_order),
        cmocka_unit_test(closes_what_was_opened),
        cmocka_unit_test(lets_dpdk_probe_nothing),
    };

    return cmocka_run_group_tests_name("ext_platform", tests, NULL, NULL);
}
