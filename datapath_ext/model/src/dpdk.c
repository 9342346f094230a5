/* SPDX-License-Identifier: Apache-2.0 */
/* Port numbers for devices: the only thing of DPDK that a flow program cannot do without. */
#include <doca_dpdk.h>

#include "core.h"
#include "dev.h"

static int next_port;

doca_error_t doca_dpdk_port_probe_with_representors(struct doca_dev *dev, const char *devargs,
                                                    struct doca_dev_rep *reps[], uint16_t count)
{
    (void)devargs;
    if (dev == NULL || (count > 0 && reps == NULL))
        return refuse(DOCA_ERROR_INVALID_VALUE, "dpdk_port_probe without a device or representors");
    model_lock();
    dev_set_port(dev, next_port);
    next_port += 1 + count;
    model_unlock();
    return DOCA_SUCCESS;
}

doca_error_t doca_dpdk_port_probe(struct doca_dev *dev, const char *devargs)
{
    return doca_dpdk_port_probe_with_representors(dev, devargs, NULL, 0);
}

doca_error_t doca_dpdk_port_as_dev(uint16_t port_id, struct doca_dev **dev)
{
    if (dev == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dpdk_port_as_dev without a place for the device");
    model_lock();
    *dev = dev_by_port(port_id);
    model_unlock();
    return *dev != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NOT_FOUND, "no device was probed as port %u", port_id);
}

doca_error_t doca_dpdk_get_first_port_id(const struct doca_dev *dev, uint16_t *port_id)
{
    if (dev == NULL || port_id == NULL || dev_port(dev) < 0)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dpdk_get_first_port_id of a device that was not probed");
    *port_id = (uint16_t)dev_port(dev);
    return DOCA_SUCCESS;
}
