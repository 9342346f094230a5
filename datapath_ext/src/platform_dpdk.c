/* DPDK below the SDK. Nobody has compiled or run this yet: there was no SDK where it was written. */
#include "platform.h"

#include <doca_dpdk.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

/* Hardware steers; the queue that DPDK insists on stays empty. */
enum { DESCRIPTORS = 64, BUFFERS = 1024, PORTS_MAX = 2 };

static struct rte_mempool *pool;
static uint16_t started[PORTS_MAX];
static unsigned started_count;

bool platform_up(struct fault *fault)
{
    char name[] = "dnsteer-ext", none[] = "-a", nothing[] = "pci:00:00.0", memory[] = "--in-memory";
    char *arguments[] = {name, none, nothing, memory};

    if (rte_eal_init(4, arguments) < 0)
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
    if (found != port_id || started_count == PORTS_MAX)
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
    started[started_count++] = port_id;
    return true;
}

void platform_down(void)
{
    while (started_count > 0) {
        (void)rte_eth_dev_stop(started[--started_count]);
        (void)rte_eth_dev_close(started[started_count]);
    }
    rte_mempool_free(pool);
    pool = NULL;
    (void)rte_eal_cleanup();
}
