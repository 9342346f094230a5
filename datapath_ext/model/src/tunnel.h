/* SPDX-License-Identifier: Apache-2.0 */
/* Headers put in front of packets and taken off again. */
#ifndef MODEL_TUNNEL_H_
#define MODEL_TUNNEL_H_

#include <doca_error.h>
#include <doca_flow.h>

#include "packet.h"

struct encap_header {
    bool is_l2;
    uint8_t bytes[DOCA_FLOW_MAX_ENTRY_ACTIONS_MEM_SIZE];
    size_t length;
    size_t l3_off;
    enum doca_flow_l3_type l3;
    size_t l4_off; /* of UDP, 0 without */
};

struct decap_header {
    bool is_l2;
    uint8_t bytes[22]; /* the Ethernet header of packets that come out without one */
    size_t length;
};

/* Members of the template that are all ones come from the entry, which may be NULL if there are none or if only the
 * template's shape is to be checked. */
doca_error_t encap_build(const struct doca_flow_resource_encap_cfg *shape,
                         const struct doca_flow_resource_encap_cfg *entry, struct encap_header *header);
doca_error_t decap_build(const struct doca_flow_resource_decap_cfg *shape,
                         const struct doca_flow_resource_decap_cfg *entry, struct decap_header *header);
/* Whether the entry has to bring values. */
bool encap_is_changeable(const struct doca_flow_resource_encap_cfg *shape);
bool decap_is_changeable(const struct doca_flow_resource_decap_cfg *shape);

/* False, with the packet as it was, if the packet cannot be changed that way. */
bool encap_apply(const struct encap_header *header, struct packet *packet);
bool decap_apply(const struct decap_header *header, struct packet *packet);
bool vlan_push(struct packet *packet, uint16_t type, uint16_t tci);
bool vlan_pop(struct packet *packet);

#endif
