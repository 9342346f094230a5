/* DPDK below the SDK. Tests compile it, and run it on functions that record their calls; it has not run on a card. */
#include "platform.h"

#include <doca_dpdk.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stddef.h>

/* Hardware steers; the queue that DPDK insists on stays empty. */
enum { DESCRIPTORS = 64, BUFFERS = 1024, PORTS_MAX = 2 };

static struct rte_mempool *pool;
static uint16_t ports[PORTS_MAX];
static unsigned port_count;

bool platform_up(struct fault *fault)
{
    /* Both buses that a BlueField has devices on get a list of what may be probed, and neither list names one: a bus
     * without a list has all of its devices probed, the auxiliary bus every scalable function. */
    char name[] = "dnsteer-ext", allow[] = "-a", no_pci[] = "pci:00:00.0", no_auxiliary[] = "auxiliary:";
    char memory[] = "--in-memory";
    char *arguments[] = {name, allow, no_pci, allow, no_auxiliary, memory, NULL};

    if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]) - 1, arguments) < 0)
        return fault_set(fault, "DPDK's environment: %s", rte_strerror(rte_errno));
    pool = rte_pktmbuf_pool_create("dnsteer-ext", BUFFERS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (pool == NULL) {
        (void)fault_set(fault, "DPDK's buffers: %s", rte_strerror(rte_errno));
        platform_down();
        return false;
    }
    return true;
}

bool platform_add(struct doca_dev *dev, uint16_t port_id, struct fault *fault)
{
    struct rte_eth_conf conf = {0};
    uint16_t found = UINT16_MAX;
    doca_error_t result = doca_dpdk_port_probe(dev, "dv_flow_en=2");
    int error;

    if (result == DOCA_SUCCESS)
        result = doca_dpdk_get_first_port_id(dev, &found);
    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "probing the device of port %u", port_id);
    if (port_count < PORTS_MAX)
        ports[port_count++] = found;
    if (found != port_id)
        return fault_set(fault, "the device of port %u became DPDK's port %u", port_id, found);
    error = rte_eth_dev_configure(port_id, 1, 1, &conf);
    if (error == 0)
        error = rte_eth_rx_queue_setup(port_id, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL, pool);
    if (error == 0)
        error = rte_eth_tx_queue_setup(port_id, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL);
    if (error == 0)
        error = rte_eth_dev_start(port_id);
    if (error != 0)
        return fault_set(fault, "DPDK's port %u: %s", port_id, rte_strerror(-error));
    return true;
}

void platform_down(void)
{
    while (port_count > 0) { /* a port that did not start is stopped already */
        (void)rte_eth_dev_stop(ports[--port_count]);
        (void)rte_eth_dev_close(ports[port_count]);
    }
    rte_mempool_free(pool);
    pool = NULL;
    (void)rte_eal_cleanup();
}
