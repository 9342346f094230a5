/* Names for fields that a program adds behind the API's structures. */
#ifndef DOCA_FLOW_DEFINITIONS_H_
#define DOCA_FLOW_DEFINITIONS_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_flow_definitions;
struct doca_flow_definitions_cfg;

doca_error_t doca_flow_definitions_cfg_create(struct doca_flow_definitions_cfg **cfg);
doca_error_t doca_flow_definitions_cfg_destroy(struct doca_flow_definitions_cfg *cfg);
doca_error_t doca_flow_definitions_create(struct doca_flow_definitions_cfg *cfg,
                                          struct doca_flow_definitions **defs);
void doca_flow_definitions_destroy(struct doca_flow_definitions *defs);
/* Bytes [offset, offset + size) of the program's own structure hold the field that `opcode` names. */
doca_error_t doca_flow_definitions_add_field(struct doca_flow_definitions *defs, const char *opcode, uint32_t offset,
                                             uint32_t size);

#ifdef __cplusplus
}
#endif

#endif
