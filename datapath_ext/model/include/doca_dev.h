/* SPDX-License-Identifier: Apache-2.0 */
/* Devices. In the model a device is a name; see doca_flow_model.h for how one gets traffic. */
#ifndef DOCA_DEV_H_
#define DOCA_DEV_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOCA_DEVINFO_PCI_ADDR_SIZE 13
#define DOCA_DEVINFO_PCI_BDF_SIZE 8
#define DOCA_DEVINFO_IPV4_ADDR_SIZE 4
#define DOCA_DEVINFO_IPV6_ADDR_SIZE 16
#define DOCA_DEVINFO_MAC_ADDR_SIZE 6
#define DOCA_DEVINFO_IFACE_NAME_SIZE 256
#define DOCA_DEVINFO_IBDEV_NAME_SIZE 64
#define DOCA_DEVINFO_VUID_SIZE 128
#define DOCA_DEVINFO_REP_VUID_SIZE 128
#define DOCA_DEVINFO_REP_PCI_ADDR_SIZE 13

enum doca_devinfo_rep_filter {
    DOCA_DEVINFO_REP_FILTER_ALL = 0,
    DOCA_DEVINFO_REP_FILTER_NET = 1 << 1,
    DOCA_DEVINFO_REP_FILTER_EMULATED = 1 << 2,
};

struct doca_dev;
struct doca_dev_rep;
struct doca_devinfo;
struct doca_devinfo_rep;

doca_error_t doca_devinfo_create_list(struct doca_devinfo ***list, uint32_t *count);
doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **list);
doca_error_t doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev);
doca_error_t doca_dev_close(struct doca_dev *dev);
struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *dev);

doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *info, char *pci_addr);
doca_error_t doca_devinfo_is_equal_pci_addr(const struct doca_devinfo *info, const char *pci_addr, uint8_t *equal);
doca_error_t doca_devinfo_get_ipv4_addr(const struct doca_devinfo *info, uint8_t *address, uint32_t size);
doca_error_t doca_devinfo_get_mac_addr(const struct doca_devinfo *info, uint8_t *address, uint32_t size);
doca_error_t doca_devinfo_get_iface_name(const struct doca_devinfo *info, char *name, uint32_t size);
doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *info, char *name, uint32_t size);
doca_error_t doca_devinfo_get_pci_func_type(const struct doca_devinfo *info, enum doca_pci_func_type *type);
doca_error_t doca_devinfo_get_sf_index(const struct doca_devinfo *info, uint32_t *index);

doca_error_t doca_devinfo_rep_create_list(struct doca_dev *dev, int filter, struct doca_devinfo_rep ***list,
                                          uint32_t *count);
doca_error_t doca_devinfo_rep_destroy_list(struct doca_devinfo_rep **list);
doca_error_t doca_devinfo_rep_get_vuid(const struct doca_devinfo_rep *info, char *vuid, uint32_t size);
doca_error_t doca_devinfo_rep_is_equal_pci_addr(const struct doca_devinfo_rep *info, const char *pci_addr,
                                                uint8_t *equal);
doca_error_t doca_dev_rep_open(struct doca_devinfo_rep *info, struct doca_dev_rep **rep);
doca_error_t doca_dev_rep_close(struct doca_dev_rep *rep);

#ifdef __cplusplus
}
#endif

#endif
