/* SPDX-License-Identifier: Apache-2.0 */
/* Integers that hold network byte order. */
#ifndef DOCA_TYPES_H_
#define DOCA_TYPES_H_

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

typedef __be16 doca_be16_t;
typedef __be32 doca_be32_t;
typedef __be64 doca_be64_t;

enum doca_pci_func_type {
    DOCA_PCI_FUNC_TYPE_PF = 0,
    DOCA_PCI_FUNC_TYPE_VF,
    DOCA_PCI_FUNC_TYPE_SF,
};

#endif
