/* Custom headers: every call refuses. They are defined so that programs which bring them along can be linked. */
#include <doca_flow_custom_header_graph.h>

#include "core.h"

static doca_error_t none(void)
{
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "custom headers; the model parses the headers that it knows");
}

doca_error_t doca_flow_custom_header_create(struct doca_flow_custom_header **header)
{
    (void)header;
    return none();
}

doca_error_t doca_flow_custom_header_destroy(struct doca_flow_custom_header *header)
{
    (void)header;
    return none();
}

doca_error_t doca_flow_custom_header_next_hdr_set_offset(struct doca_flow_custom_header *header, uint32_t offset)
{
    (void)header, (void)offset;
    return none();
}

doca_error_t doca_flow_custom_header_next_hdr_set_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_length_field_set_fixed_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t doca_flow_custom_header_length_field_set_offset(struct doca_flow_custom_header *header, uint32_t offset)
{
    (void)header, (void)offset;
    return none();
}

doca_error_t doca_flow_custom_header_length_field_set_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_length_field_set_multiplier(struct doca_flow_custom_header *header, uint32_t multiplier)
{
    (void)header, (void)multiplier;
    return none();
}

doca_error_t doca_flow_custom_header_tlv_options_set_offset(struct doca_flow_custom_header *header, uint32_t offset)
{
    (void)header, (void)offset;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_set_fixed_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_type_set_offset(struct doca_flow_custom_header *header, uint32_t offset)
{
    (void)header, (void)offset;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_type_set_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_length_set_offset(struct doca_flow_custom_header *header, uint32_t offset)
{
    (void)header, (void)offset;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_length_set_length(struct doca_flow_custom_header *header, uint32_t length)
{
    (void)header, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_tlv_options_length_set_multiplier(struct doca_flow_custom_header *header,
                                                          uint32_t multiplier)
{
    (void)header, (void)multiplier;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_create(struct doca_flow_custom_header *header,
                                       struct doca_flow_custom_header_sampler **sampler)
{
    (void)header, (void)sampler;
    return none();
}

doca_error_t doca_flow_custom_header_sampler_destroy(struct doca_flow_custom_header_sampler *sampler)
{
    (void)sampler;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_set_offset(struct doca_flow_custom_header_sampler *sampler, uint32_t offset)
{
    (void)sampler, (void)offset;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_set_length(struct doca_flow_custom_header_sampler *sampler, uint32_t length)
{
    (void)sampler, (void)length;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_enable_is_options(struct doca_flow_custom_header_sampler *sampler, uint32_t type)
{
    (void)sampler, (void)type;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_set_tunnel_mode(struct doca_flow_custom_header_sampler *sampler,
                                                enum doca_flow_custom_header_sampler_tunnel_mode mode)
{
    (void)sampler, (void)mode;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_get_match_definition(struct doca_flow_custom_header_sampler *sampler,
                                                     const char **definition)
{
    (void)sampler, (void)definition;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_get_action_definition(struct doca_flow_custom_header_sampler *sampler,
                                                      const char **definition)
{
    (void)sampler, (void)definition;
    return none();
}

doca_error_t
doca_flow_custom_header_sampler_get_valid_bit_definition(struct doca_flow_custom_header_sampler *sampler,
                                                         const char **definition)
{
    (void)sampler, (void)definition;
    return none();
}

doca_error_t doca_flow_custom_header_graph_create(struct doca_flow_custom_header_graph **graph)
{
    (void)graph;
    return none();
}

doca_error_t doca_flow_custom_header_graph_destroy(struct doca_flow_custom_header_graph *graph)
{
    (void)graph;
    return none();
}

doca_error_t doca_flow_custom_header_graph_bind(struct doca_flow_custom_header_graph *graph, struct doca_dev *dev)
{
    (void)graph, (void)dev;
    return none();
}

doca_error_t doca_flow_custom_header_graph_unbind(struct doca_flow_custom_header_graph *graph)
{
    (void)graph;
    return none();
}

doca_error_t
doca_flow_custom_header_graph_arc_create(struct doca_flow_custom_header_graph *graph,
                                         struct doca_flow_custom_header_graph_arc **arc)
{
    (void)graph, (void)arc;
    return none();
}

doca_error_t doca_flow_custom_header_graph_arc_destroy(struct doca_flow_custom_header_graph_arc *arc)
{
    (void)arc;
    return none();
}

doca_error_t
doca_flow_custom_header_graph_arc_set_src(struct doca_flow_custom_header_graph_arc *arc,
                                          enum doca_flow_custom_header_graph_node_type node, uint32_t value,
                                          struct doca_flow_custom_header *header)
{
    (void)arc, (void)node, (void)value, (void)header;
    return none();
}

doca_error_t
doca_flow_custom_header_graph_arc_set_dst(struct doca_flow_custom_header_graph_arc *arc,
                                          enum doca_flow_custom_header_graph_node_type node,
                                          struct doca_flow_custom_header *header)
{
    (void)arc, (void)node, (void)header;
    return none();
}

doca_error_t
doca_flow_custom_header_graph_arc_set_transition(struct doca_flow_custom_header_graph_arc *arc, bool transition)
{
    (void)arc, (void)transition;
    return none();
}
