/* SPDX-License-Identifier: Apache-2.0 */
/* Declared for programs that include it; the model maps no memory. */
#ifndef DOCA_MMAP_H_
#define DOCA_MMAP_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

struct doca_dev;
struct doca_mmap;

doca_error_t doca_mmap_create(struct doca_mmap **mmap);
doca_error_t doca_mmap_destroy(struct doca_mmap *mmap);
doca_error_t doca_mmap_add_dev(struct doca_mmap *mmap, struct doca_dev *dev);
doca_error_t doca_mmap_set_memrange(struct doca_mmap *mmap, void *address, size_t length);
doca_error_t doca_mmap_get_memrange(const struct doca_mmap *mmap, void **address, size_t *length);
doca_error_t doca_mmap_start(struct doca_mmap *mmap);

#endif
