/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of DOCA libraries other than DOCA Flow, which programs link through their helpers: each is refused. */
#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_ctx.h>
#include <doca_mmap.h>
#include <doca_pe.h>

#include "core.h"

static doca_error_t unsupported(const char *what)
{
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "%s; the model is one of DOCA Flow only", what);
}

doca_error_t doca_buf_set_data(struct doca_buf *buf, void *data, size_t length)
{
    (void)buf, (void)data, (void)length;
    return unsupported("buf_set_data");
}

doca_error_t doca_buf_chain_list(struct doca_buf *first, struct doca_buf *second)
{
    (void)first, (void)second;
    return unsupported("buf_chain_list");
}

doca_error_t doca_buf_inventory_create(size_t elements, struct doca_buf_inventory **inventory)
{
    (void)elements, (void)inventory;
    return unsupported("buf_inventory_create");
}

doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *inventory)
{
    (void)inventory;
    return unsupported("buf_inventory_destroy");
}

doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *inventory)
{
    (void)inventory;
    return unsupported("buf_inventory_start");
}

doca_error_t doca_buf_inventory_buf_get_by_addr(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *address, size_t length, struct doca_buf **buf)
{
    (void)inventory, (void)mmap, (void)address, (void)length, (void)buf;
    return unsupported("buf_inventory_buf_get_by_addr");
}

doca_error_t doca_buf_inventory_buf_get_by_data(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *data, size_t length, struct doca_buf **buf)
{
    (void)inventory, (void)mmap, (void)data, (void)length, (void)buf;
    return unsupported("buf_inventory_buf_get_by_data");
}

doca_error_t doca_mmap_create(struct doca_mmap **mmap)
{
    (void)mmap;
    return unsupported("mmap_create");
}

doca_error_t doca_mmap_destroy(struct doca_mmap *mmap)
{
    (void)mmap;
    return unsupported("mmap_destroy");
}

doca_error_t doca_mmap_add_dev(struct doca_mmap *mmap, struct doca_dev *dev)
{
    (void)mmap, (void)dev;
    return unsupported("mmap_add_dev");
}

doca_error_t doca_mmap_set_memrange(struct doca_mmap *mmap, void *address, size_t length)
{
    (void)mmap, (void)address, (void)length;
    return unsupported("mmap_set_memrange");
}

doca_error_t doca_mmap_get_memrange(const struct doca_mmap *mmap, void **address, size_t *length)
{
    (void)mmap, (void)address, (void)length;
    return unsupported("mmap_get_memrange");
}

doca_error_t doca_mmap_start(struct doca_mmap *mmap)
{
    (void)mmap;
    return unsupported("mmap_start");
}

doca_error_t doca_ctx_start(struct doca_ctx *ctx)
{
    (void)ctx;
    return unsupported("ctx_start");
}

doca_error_t doca_ctx_stop(struct doca_ctx *ctx)
{
    (void)ctx;
    return unsupported("ctx_stop");
}

doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx, enum doca_ctx_states *state)
{
    (void)ctx, (void)state;
    return unsupported("ctx_get_state");
}

doca_error_t doca_pe_create(struct doca_pe **pe)
{
    (void)pe;
    return unsupported("pe_create");
}

doca_error_t doca_pe_destroy(struct doca_pe *pe)
{
    (void)pe;
    return unsupported("pe_destroy");
}

uint8_t doca_pe_progress(struct doca_pe *pe)
{
    (void)pe;
    return 0;
}
