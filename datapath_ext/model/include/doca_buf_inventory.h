/* SPDX-License-Identifier: Apache-2.0 */
/* Declared for programs that include it; the model has no buffers. */
#ifndef DOCA_BUF_INVENTORY_H_
#define DOCA_BUF_INVENTORY_H_

#include <stddef.h>

#include <doca_compat.h>
#include <doca_error.h>

struct doca_buf;
struct doca_buf_inventory;
struct doca_mmap;

doca_error_t doca_buf_inventory_create(size_t elements, struct doca_buf_inventory **inventory);
doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *inventory);
doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *inventory);
doca_error_t doca_buf_inventory_buf_get_by_addr(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *address, size_t length, struct doca_buf **buf);
doca_error_t doca_buf_inventory_buf_get_by_data(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *data, size_t length, struct doca_buf **buf);

#endif
