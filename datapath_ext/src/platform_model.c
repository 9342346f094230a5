/* SPDX-License-Identifier: Apache-2.0 */
/* The model has ports without DPDK. What of DPDK's ports it has too is set here. */
#include "platform.h"

#include <doca_dev.h>
#include <doca_flow_model.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static uint16_t port_count;
static int core = ANY_CORE;

void platform_set_core(int wanted)
{
    core = wanted;
}

/* As DPDK does, with its one thread; those of the model's devices, which this one starts, are there too. */
bool platform_up(struct fault *fault)
{
    cpu_set_t cores;

    if (core == ANY_CORE)
        return true;
    CPU_ZERO(&cores);
    CPU_SET((unsigned)core, &cores);
    return sched_setaffinity(0, sizeof(cores), &cores) == 0 ||
           fault_set(fault, "core %d: %s", core, strerror(errno));
}

static unsigned mtu_of(const struct doca_dev *dev)
{
    struct ifreq request = {0};
    char name[DOCA_DEVINFO_IFACE_NAME_SIZE];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = fd >= 0 && doca_devinfo_get_iface_name(doca_dev_as_devinfo(dev), name, sizeof(name)) == DOCA_SUCCESS;

    if (known) {
        (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%.*s", (int)sizeof(request.ifr_name) - 1, name);
        known = ioctl(fd, SIOCGIFMTU, &request) == 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return known ? (unsigned)request.ifr_mtu : 0;
}

bool platform_add(struct doca_dev *dev, uint16_t port_id, unsigned *mtu, struct fault *fault)
{
    doca_error_t result = doca_flow_model_set_promiscuous(port_id, true);

    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "promiscuous mode of port %u", port_id);
    port_count = (uint16_t)(port_id + 1);
    *mtu = mtu_of(dev);
    return true;
}

void platform_down(void)
{
    while (port_count > 0)
        (void)doca_flow_model_set_promiscuous(--port_count, false);
}
