/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by name, for the command line and the DPDK bridge. */
#ifndef MODEL_DEV_H_
#define MODEL_DEV_H_

#include <doca_dev.h>

/* Opens (again) the device of that name, offering it from now on if it was not; NULL without memory. */
struct doca_dev *dev_open_name(const char *name);
/* A representor of the device; holds it open. */
struct doca_dev_rep *rep_open_name(struct doca_dev *dev, const char *name);
struct doca_dev *rep_dev(const struct doca_dev_rep *rep);
/* NULL for NULL. */
const char *info_name(const struct doca_devinfo *info);
const char *rep_info_name(const struct doca_devinfo_rep *info);
/* The DPDK port number that probing gave it, -1 before. */
int dev_port(const struct doca_dev *dev);
void dev_set_port(struct doca_dev *dev, int port);
struct doca_dev *dev_by_port(int port);

#endif
