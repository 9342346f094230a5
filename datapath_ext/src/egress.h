/* Tunnels: root pipes in the egress domain of the port out, as in the only public program that encapsulates IP in IP.
 * Which tunnel a packet takes stands in its mark. */
#ifndef EGRESS_H_
#define EGRESS_H_

#include "delivery.h"

struct tunnel {
    uint8_t src_mac[6], dst_mac[6];
    struct address src, dst;
};

bool egress_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, struct fault *fault);

/* inner: the IP version of what goes into the tunnel. */
bool tunnel_add(struct delivery *delivery, struct flow_port *out, uint32_t mark, unsigned inner,
                const struct tunnel *tunnel, struct doca_flow_pipe_entry **entry, struct fault *fault);
bool tunnel_update(struct delivery *delivery, struct flow_port *out, unsigned inner, const struct tunnel *tunnel,
                   struct doca_flow_pipe_entry *entry, struct fault *fault);

#endif
