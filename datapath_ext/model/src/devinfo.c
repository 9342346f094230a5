/* SPDX-License-Identifier: Apache-2.0 */
/* What programs ask of devices and representors: all that the model knows of them is their names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "dev.h"

/* "pci/08:00.0", "08:00.0" and "0000:08:00.0" all give the last one; "" for other names. */
static void pci_address(const char *name, char *address)
{
    address[0] = '\0';
    if (strncmp(name, "pci/", 4) == 0)
        name += 4;
    if (strlen(name) == 7 && name[2] == ':' && name[5] == '.') {
        memcpy(address, "0000:", 5);
        memcpy(address + 5, name, 8);
    } else if (strlen(name) == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.') {
        memcpy(address, name, 13);
    }
}

doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *info, char *pci_addr)
{
    if (info == NULL || pci_addr == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_get_pci_addr_str without a device or a place");
    pci_address(info_name(info), pci_addr);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_is_equal_pci_addr(const struct doca_devinfo *info, const char *pci_addr, uint8_t *equal)
{
    char own[DOCA_DEVINFO_PCI_ADDR_SIZE], other[DOCA_DEVINFO_PCI_ADDR_SIZE];

    if (info == NULL || pci_addr == NULL || equal == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_is_equal_pci_addr without a device, an address or a place");
    pci_address(info_name(info), own);
    pci_address(pci_addr, other);
    *equal = own[0] != '\0' && strcmp(own, other) == 0;
    return DOCA_SUCCESS;
}

static doca_error_t put_name(const char *name, char *target, uint32_t size)
{
    if (target == NULL || strlen(name) >= size)
        return refuse(DOCA_ERROR_INVALID_VALUE, "no room for the device's name");
    memcpy(target, name, strlen(name) + 1);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_iface_name(const struct doca_devinfo *info, char *name, uint32_t size)
{
    if (info == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_get_iface_name without a device");
    return put_name(info_name(info), name, size);
}

doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *info, char *name, uint32_t size)
{
    return doca_devinfo_get_iface_name(info, name, size);
}

doca_error_t doca_devinfo_get_ipv4_addr(const struct doca_devinfo *info, uint8_t *address, uint32_t size)
{
    (void)address;
    (void)size;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "device %s has no IPv4 address of its own",
                  info != NULL ? info_name(info) : "(none)");
}

doca_error_t doca_devinfo_get_mac_addr(const struct doca_devinfo *info, uint8_t *address, uint32_t size)
{
    (void)address;
    (void)size;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "device %s has no MAC address of its own",
                  info != NULL ? info_name(info) : "(none)");
}

/* The digits that the name ends with. */
static const char *number_of(const char *name)
{
    const char *digits = name + strlen(name);

    while (digits > name && isdigit((unsigned char)digits[-1]))
        digits--;
    return digits;
}

/* Kinds of functions and their numbers are in the names, as public programs write them: "aux/3" and
 * "auxiliary:mlx5_core.sf.3" are SFs, so is what "pf0sf3" represents; "pf0vf1" represents a VF. */
static enum doca_pci_func_type func_type(const char *name)
{
    const char *digits = number_of(name);
    size_t stem = (size_t)(digits - name);

    if (strncmp(name, "aux", 3) == 0 || (stem >= 2 && strncmp(digits - 2, "sf", 2) == 0))
        return DOCA_PCI_FUNC_TYPE_SF;
    return stem >= 2 && strncmp(digits - 2, "vf", 2) == 0 ? DOCA_PCI_FUNC_TYPE_VF : DOCA_PCI_FUNC_TYPE_PF;
}

static doca_error_t put_func_type(const char *name, enum doca_pci_func_type *type)
{
    if (name == NULL || type == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "the kind of a function without a device or a place");
    *type = func_type(name);
    return DOCA_SUCCESS;
}

static doca_error_t put_sf_index(const char *name, uint32_t *index)
{
    if (name == NULL || index == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "the index of an SF without a device or a place");
    if (func_type(name) != DOCA_PCI_FUNC_TYPE_SF || *number_of(name) == '\0')
        return refuse(DOCA_ERROR_INVALID_VALUE, "the index of an SF: %s is no name of one", name);
    *index = (uint32_t)strtoul(number_of(name), NULL, 10);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_pci_func_type(const struct doca_devinfo *info, enum doca_pci_func_type *type)
{
    return put_func_type(info_name(info), type);
}

doca_error_t doca_devinfo_get_sf_index(const struct doca_devinfo *info, uint32_t *index)
{
    return put_sf_index(info_name(info), index);
}

doca_error_t doca_devinfo_rep_get_vuid(const struct doca_devinfo_rep *info, char *vuid, uint32_t size)
{
    if (info == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_rep_get_vuid without a representor");
    return put_name(rep_info_name(info), vuid, size);
}

doca_error_t doca_devinfo_rep_is_equal_pci_addr(const struct doca_devinfo_rep *info, const char *pci_addr,
                                                uint8_t *equal)
{
    if (info == NULL || pci_addr == NULL || equal == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_rep_is_equal_pci_addr without a representor or a place");
    *equal = strcmp(rep_info_name(info), pci_addr) == 0;
    return DOCA_SUCCESS;
}
