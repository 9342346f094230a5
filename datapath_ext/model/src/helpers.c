/* Helpers of the API that need no port: MPLS labels, the entropy of a tunnel's source port, definitions of fields. */
#include <stdlib.h>
#include <string.h>

#include <doca_flow_definitions.h>

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
