/* Small calls: MPLS labels, entropy, definitions. And calls of libraries that the model has no use for: programs
 * bring them along in helpers, and are told that they do not work. */
#include <stdlib.h>
#include <string.h>

#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_ctx.h>
#include <doca_flow_definitions.h>
#include <doca_mmap.h>
#include <doca_pe.h>

#include "core.h"

doca_error_t doca_flow_mpls_label_encode(uint32_t label, uint8_t traffic_class, uint8_t ttl, bool bottom_of_stack,
                                         struct doca_flow_header_mpls *mpls)
{
    if (mpls == NULL || label > 0xfffff || traffic_class > 7)
        return refuse(DOCA_ERROR_INVALID_VALUE, "mpls_label_encode of label %u, traffic class %u", label,
                      traffic_class);
    mpls->label = DOCA_HTOBE32(label << 12 | (uint32_t)traffic_class << 9 | (uint32_t)bottom_of_stack << 8 | ttl);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_mpls_label_decode(const struct doca_flow_header_mpls *mpls, uint32_t *label,
                                         uint8_t *traffic_class, uint8_t *ttl, bool *bottom_of_stack)
{
    uint32_t word;

    if (mpls == NULL || label == NULL || traffic_class == NULL || ttl == NULL || bottom_of_stack == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "mpls_label_decode without a label or places for its parts");
    word = DOCA_BETOH32(mpls->label);
    *label = word >> 12;
    *traffic_class = (uint8_t)(word >> 9 & 7);
    *bottom_of_stack = (word >> 8 & 1) != 0;
    *ttl = (uint8_t)word;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_port_calc_entropy(struct doca_flow_port *port, struct doca_flow_entropy_format *header,
                                         uint16_t *entropy)
{
    (void)port;
    (void)header;
    (void)entropy;
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "port_calc_entropy; the hardware's function is not public");
}

struct doca_flow_definitions_cfg {
    int none;
};

struct doca_flow_definitions {
    unsigned fields;
};

doca_error_t doca_flow_definitions_cfg_create(struct doca_flow_definitions_cfg **cfg)
{
    if (cfg == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "definitions_cfg_create without a place for it");
    *cfg = calloc(1, sizeof(**cfg));
    return *cfg != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for definitions");
}

doca_error_t doca_flow_definitions_cfg_destroy(struct doca_flow_definitions_cfg *cfg)
{
    free(cfg);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_definitions_create(struct doca_flow_definitions_cfg *cfg,
                                          struct doca_flow_definitions **defs)
{
    if (cfg == NULL || defs == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "definitions_create without a configuration or a place for it");
    *defs = calloc(1, sizeof(**defs));
    return *defs != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for definitions");
}

void doca_flow_definitions_destroy(struct doca_flow_definitions *defs)
{
    free(defs);
}

doca_error_t doca_flow_definitions_add_field(struct doca_flow_definitions *defs, const char *opcode, uint32_t offset,
                                             uint32_t size)
{
    (void)offset;
    if (defs == NULL || opcode == NULL || size == 0)
        return refuse(DOCA_ERROR_INVALID_VALUE, "definitions_add_field without definitions, a name or a size");
    defs->fields++;
    return DOCA_SUCCESS;
}

static doca_error_t none(const char *what)
{
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "%s; the model is one of DOCA Flow only", what);
}

doca_error_t doca_buf_set_data(struct doca_buf *buf, void *data, size_t length)
{
    (void)buf, (void)data, (void)length;
    return none("buf_set_data");
}

doca_error_t doca_buf_chain_list(struct doca_buf *first, struct doca_buf *second)
{
    (void)first, (void)second;
    return none("buf_chain_list");
}

doca_error_t doca_buf_inventory_create(size_t elements, struct doca_buf_inventory **inventory)
{
    (void)elements, (void)inventory;
    return none("buf_inventory_create");
}

doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *inventory)
{
    (void)inventory;
    return none("buf_inventory_destroy");
}

doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *inventory)
{
    (void)inventory;
    return none("buf_inventory_start");
}

doca_error_t doca_buf_inventory_buf_get_by_addr(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *address, size_t length, struct doca_buf **buf)
{
    (void)inventory, (void)mmap, (void)address, (void)length, (void)buf;
    return none("buf_inventory_buf_get_by_addr");
}

doca_error_t doca_buf_inventory_buf_get_by_data(struct doca_buf_inventory *inventory, struct doca_mmap *mmap,
                                                void *data, size_t length, struct doca_buf **buf)
{
    (void)inventory, (void)mmap, (void)data, (void)length, (void)buf;
    return none("buf_inventory_buf_get_by_data");
}

doca_error_t doca_mmap_create(struct doca_mmap **mmap)
{
    (void)mmap;
    return none("mmap_create");
}

doca_error_t doca_mmap_destroy(struct doca_mmap *mmap)
{
    (void)mmap;
    return none("mmap_destroy");
}

doca_error_t doca_mmap_add_dev(struct doca_mmap *mmap, struct doca_dev *dev)
{
    (void)mmap, (void)dev;
    return none("mmap_add_dev");
}

doca_error_t doca_mmap_set_memrange(struct doca_mmap *mmap, void *address, size_t length)
{
    (void)mmap, (void)address, (void)length;
    return none("mmap_set_memrange");
}

doca_error_t doca_mmap_get_memrange(const struct doca_mmap *mmap, void **address, size_t *length)
{
    (void)mmap, (void)address, (void)length;
    return none("mmap_get_memrange");
}

doca_error_t doca_mmap_start(struct doca_mmap *mmap)
{
    (void)mmap;
    return none("mmap_start");
}

doca_error_t doca_ctx_start(struct doca_ctx *ctx)
{
    (void)ctx;
    return none("ctx_start");
}

doca_error_t doca_ctx_stop(struct doca_ctx *ctx)
{
    (void)ctx;
    return none("ctx_stop");
}

doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx, enum doca_ctx_states *state)
{
    (void)ctx, (void)state;
    return none("ctx_get_state");
}

doca_error_t doca_pe_create(struct doca_pe **pe)
{
    (void)pe;
    return none("pe_create");
}

doca_error_t doca_pe_destroy(struct doca_pe *pe)
{
    (void)pe;
    return none("pe_destroy");
}

uint8_t doca_pe_progress(struct doca_pe *pe)
{
    (void)pe;
    return 0;
}
