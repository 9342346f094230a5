/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge between devices and DPDK port numbers. The model has no DPDK: it only numbers the devices. */
#ifndef DOCA_DPDK_H_
#define DOCA_DPDK_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_dev_rep;

doca_error_t doca_dpdk_port_probe(struct doca_dev *dev, const char *devargs);
doca_error_t doca_dpdk_port_probe_with_representors(struct doca_dev *dev, const char *devargs,
                                                    struct doca_dev_rep *reps[], uint16_t count);
doca_error_t doca_dpdk_port_as_dev(uint16_t port_id, struct doca_dev **dev);
doca_error_t doca_dpdk_get_first_port_id(const struct doca_dev *dev, uint16_t *port_id);

#ifdef __cplusplus
}
#endif

#endif
