/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK below the SDK. Tests compile it, and run it on functions that record their calls; it has not run on a card. */
#include "platform.h"

#include <doca_dpdk.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>

/* Hardware steers; the queue that DPDK insists on stays empty. Its buffers must have room for a frame of the port's MTU,
 * which may be 9,978 bytes, or the driver refuses the queue. */
enum { DESCRIPTORS = 64, BUFFERS = 255, BUFFER_ROOM = 10240, PORTS_MAX = 2 };
enum { CORES_TEXT = 8 * CPU_SETSIZE };

static struct rte_mempool *pool;
static int core = ANY_CORE;
static uint16_t ports[PORTS_MAX];
static unsigned port_count;

void platform_set_core(int wanted)
{
    core = wanted;
}

/* DPDK's threads: one, the caller's. Without this there is one on each core that the process may run on, bound to it,
 * and the caller is bound to the first, where Open vSwitch's threads are. */
static void put_cores(char *text, size_t size)
{
    cpu_set_t allowed;
    const char *separator = "0@(";
    size_t used = 0;

    CPU_ZERO(&allowed);
    if (core != ANY_CORE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        (void)snprintf(text, size, "0@%d", core != ANY_CORE ? core : 0);
        return;
    }
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed)) {
            used += (size_t)snprintf(text + used, size - used, "%s%u", separator, i);
            separator = ",";
        }
    (void)snprintf(text + used, size - used, ")");
}

bool platform_up(struct fault *fault)
{
    /* Both buses that a BlueField has devices on get a list of what may be probed, and neither list names one: a bus
     * without a list has all of its devices probed, the auxiliary bus every scalable function. */
    char name[] = "dnsteer-ext", allow[] = "-a", no_pci[] = "pci:00:00.0", no_auxiliary[] = "auxiliary:";
    char memory[] = "--in-memory", threads[] = "--lcores", cores[CORES_TEXT];
    char *arguments[] = {name, allow, no_pci, allow, no_auxiliary, memory, threads, cores, NULL};

    put_cores(cores, sizeof(cores));
    if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]) - 1, arguments) < 0)
        return fault_set(fault, "DPDK's environment: %s", rte_strerror(rte_errno));
    pool = rte_pktmbuf_pool_create("dnsteer-ext", BUFFERS, 0, 0, BUFFER_ROOM, SOCKET_ID_ANY);
    if (pool == NULL) {
        (void)fault_set(fault, "DPDK's buffers: %s", rte_strerror(rte_errno));
        platform_down();
        return false;
    }
    return true;
}

/* DPDK's port, as the samples set theirs up; 0 or an error of DPDK's, and in *what the call that gave it. */
static int start_port(uint16_t port_id, uint16_t *mtu, const char **what)
{
    struct rte_eth_conf conf = {0};
    int error;

    *what = "its MTU";
    error = rte_eth_dev_get_mtu(port_id, mtu);
    if (error != 0)
        return error;
    conf.rxmode.mtu = *mtu; /* 0 would set it to 1500, too little for tunnels */
    *what = "configuration";
    error = rte_eth_dev_configure(port_id, 1, 1, &conf);
    if (error != 0)
        return error;
    /* Queries have the gateway's MAC address, probes one of their own: none has the function's. */
    *what = "promiscuous mode, without which no query comes in (the function must be trusted)";
    error = rte_eth_promiscuous_enable(port_id);
    if (error != 0)
        return error;
    *what = "its queue";
    error = rte_eth_rx_queue_setup(port_id, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL, pool);
    if (error == 0)
        error = rte_eth_tx_queue_setup(port_id, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL);
    if (error != 0)
        return error;
    *what = "start";
    return rte_eth_dev_start(port_id);
}

bool platform_add(struct doca_dev *dev, uint16_t port_id, unsigned *mtu, struct fault *fault)
{
    uint16_t found = UINT16_MAX, bytes = 0;
    doca_error_t result = doca_dpdk_port_probe(dev, "dv_flow_en=2");
    const char *what;
    int error;

    if (result == DOCA_SUCCESS)
        result = doca_dpdk_get_first_port_id(dev, &found);
    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "probing the device of port %u", port_id);
    if (port_count < PORTS_MAX)
        ports[port_count++] = found;
    if (found != port_id)
        return fault_set(fault, "the device of port %u became DPDK's port %u", port_id, found);
    error = start_port(port_id, &bytes, &what);
    if (error != 0)
        return fault_set(fault, "DPDK's port %u, %s: %s", port_id, what, rte_strerror(-error));
    *mtu = bytes;
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
