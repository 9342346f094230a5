/* Headers that a program teaches the parser. Declared for programs that use them; the model parses none of its own
 * accord, and doca_flow_custom_header_create() says so. */
#ifndef DOCA_FLOW_CUSTOM_HEADER_H_
#define DOCA_FLOW_CUSTOM_HEADER_H_

#include <stdbool.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_flow_custom_header;
struct doca_flow_custom_header_sampler;

enum doca_flow_custom_header_sampler_tunnel_mode {
    DOCA_FLOW_CUSTOM_HEADER_SAMPLER_TUNNEL_MODE_OUTER = 0,
    DOCA_FLOW_CUSTOM_HEADER_SAMPLER_TUNNEL_MODE_INNER,
    DOCA_FLOW_CUSTOM_HEADER_SAMPLER_TUNNEL_MODE_FIRST,
};

/* All offsets and lengths are in bits. */
doca_error_t doca_flow_custom_header_create(struct doca_flow_custom_header **header);
doca_error_t doca_flow_custom_header_destroy(struct doca_flow_custom_header *header);
doca_error_t doca_flow_custom_header_next_hdr_set_offset(struct doca_flow_custom_header *header, uint32_t offset);
doca_error_t doca_flow_custom_header_next_hdr_set_length(struct doca_flow_custom_header *header, uint32_t length);
doca_error_t doca_flow_custom_header_length_field_set_fixed_length(struct doca_flow_custom_header *header,
                                                                   uint32_t length);
doca_error_t doca_flow_custom_header_length_field_set_offset(struct doca_flow_custom_header *header, uint32_t offset);
doca_error_t doca_flow_custom_header_length_field_set_length(struct doca_flow_custom_header *header, uint32_t length);
doca_error_t doca_flow_custom_header_length_field_set_multiplier(struct doca_flow_custom_header *header,
                                                                 uint32_t multiplier);
doca_error_t doca_flow_custom_header_tlv_options_set_offset(struct doca_flow_custom_header *header, uint32_t offset);
doca_error_t doca_flow_custom_header_tlv_options_set_fixed_length(struct doca_flow_custom_header *header,
                                                                  uint32_t length);
doca_error_t doca_flow_custom_header_tlv_options_type_set_offset(struct doca_flow_custom_header *header,
                                                                 uint32_t offset);
doca_error_t doca_flow_custom_header_tlv_options_type_set_length(struct doca_flow_custom_header *header,
                                                                 uint32_t length);
doca_error_t doca_flow_custom_header_tlv_options_length_set_offset(struct doca_flow_custom_header *header,
                                                                   uint32_t offset);
doca_error_t doca_flow_custom_header_tlv_options_length_set_length(struct doca_flow_custom_header *header,
                                                                   uint32_t length);
doca_error_t doca_flow_custom_header_tlv_options_length_set_multiplier(struct doca_flow_custom_header *header,
                                                                       uint32_t multiplier);
doca_error_t doca_flow_custom_header_sampler_create(struct doca_flow_custom_header *header,
                                                    struct doca_flow_custom_header_sampler **sampler);
doca_error_t doca_flow_custom_header_sampler_destroy(struct doca_flow_custom_header_sampler *sampler);
doca_error_t doca_flow_custom_header_sampler_set_offset(struct doca_flow_custom_header_sampler *sampler,
                                                        uint32_t offset);
doca_error_t doca_flow_custom_header_sampler_set_length(struct doca_flow_custom_header_sampler *sampler,
                                                        uint32_t length);
doca_error_t doca_flow_custom_header_sampler_enable_is_options(struct doca_flow_custom_header_sampler *sampler,
                                                               uint32_t type);
doca_error_t
doca_flow_custom_header_sampler_set_tunnel_mode(struct doca_flow_custom_header_sampler *sampler,
                                                enum doca_flow_custom_header_sampler_tunnel_mode mode);
doca_error_t doca_flow_custom_header_sampler_get_match_definition(struct doca_flow_custom_header_sampler *sampler,
                                                                  const char **definition);
doca_error_t doca_flow_custom_header_sampler_get_action_definition(struct doca_flow_custom_header_sampler *sampler,
                                                                   const char **definition);
doca_error_t
doca_flow_custom_header_sampler_get_valid_bit_definition(struct doca_flow_custom_header_sampler *sampler,
                                                         const char **definition);

#ifdef __cplusplus
}
#endif

#endif
