/* Which header follows which; see doca_flow_custom_header.h. */
#ifndef DOCA_FLOW_CUSTOM_HEADER_GRAPH_H_
#define DOCA_FLOW_CUSTOM_HEADER_GRAPH_H_

#include <doca_flow_custom_header.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_flow_custom_header_graph;
struct doca_flow_custom_header_graph_arc;

enum doca_flow_custom_header_graph_node_type {
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_MAC = 5,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_IP = 10,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_IPV4 = 11,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_IPV6 = 12,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_GRE = 15,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_UDP = 20,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_MPLS = 25,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_TCP = 30,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_VXLAN_GPE = 35,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_GENEVE = 40,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_IPSEC_ESP = 45,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_PSP = 50,
    DOCA_FLOW_CUSTOM_HEADER_GRAPH_NODE_FLEX = 55,
};

doca_error_t doca_flow_custom_header_graph_create(struct doca_flow_custom_header_graph **graph);
doca_error_t doca_flow_custom_header_graph_destroy(struct doca_flow_custom_header_graph *graph);
doca_error_t doca_flow_custom_header_graph_bind(struct doca_flow_custom_header_graph *graph, struct doca_dev *dev);
doca_error_t doca_flow_custom_header_graph_unbind(struct doca_flow_custom_header_graph *graph);
doca_error_t doca_flow_custom_header_graph_arc_create(struct doca_flow_custom_header_graph *graph,
                                                      struct doca_flow_custom_header_graph_arc **arc);
doca_error_t doca_flow_custom_header_graph_arc_destroy(struct doca_flow_custom_header_graph_arc *arc);
doca_error_t doca_flow_custom_header_graph_arc_set_src(struct doca_flow_custom_header_graph_arc *arc,
                                                       enum doca_flow_custom_header_graph_node_type node, uint32_t value,
                                                       struct doca_flow_custom_header *header);
doca_error_t doca_flow_custom_header_graph_arc_set_dst(struct doca_flow_custom_header_graph_arc *arc,
                                                       enum doca_flow_custom_header_graph_node_type node,
                                                       struct doca_flow_custom_header *header);
doca_error_t doca_flow_custom_header_graph_arc_set_transition(struct doca_flow_custom_header_graph_arc *arc,
                                                              bool transition);

#ifdef __cplusplus
}
#endif

#endif
