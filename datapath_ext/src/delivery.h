/* The pipes behind the choice of a slot: how a packet gets to its backend. Each way of forwarding opens its own when
 * a program first needs it.
 *
 *   slots-l2:    (VIP, slot) -> destination MAC, mark MARK_PLAIN                               -> port out
 *   slots-ipip:  (VIP, slot) -> mark: which tunnel   -> port out, egress: encap4 | encap6 | plain
 *   slots-siit:  (VIP, slot) -> mark: which backend  -> NAT64 list -> translated: IPv6 destination, MAC -> port out
 *
 * The mark is pkt_meta, which alone outlives a change of domain and NAT64. */
#ifndef DELIVERY_H_
#define DELIVERY_H_

#include "pipe.h"

enum { MARK_PLAIN = 1, FIRST_ID = 2 };

struct delivery {
    struct doca_flow_pipe *slots[FORWARDS];
    struct doca_flow_pipe *encap4, *encap6, *plain;           /* egress of the port out */
    struct doca_flow_pipe *to_ip6, *translated;               /* port in */
    struct doca_flow_pipe *to_ip4, *answers;                  /* port out, for what comes back */
};

bool delivery_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, enum forward forward,
                   struct fault *fault);

/* What a slot does with its packets: a MAC for l2, a mark for the others. */
struct slot_content {
    uint32_t mark;
    uint8_t mac[6];
};

bool slot_add(struct delivery *delivery, struct flow_port *port, enum forward forward, uint32_t service,
              uint32_t number, const struct slot_content *content, struct doca_flow_pipe_entry **entry,
              struct fault *fault);
/* In place: packets meet the old content or the new one. */
bool slot_update(struct delivery *delivery, struct flow_port *port, enum forward forward,
                 const struct slot_content *content, struct doca_flow_pipe_entry *entry, struct fault *fault);
/* An update that may have to wait for another one of the same entry. */
bool update_entry(struct flow_port *port, struct doca_flow_pipe *pipe, uint8_t template,
                  const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry, struct fault *fault,
                  const char *what);

#endif
