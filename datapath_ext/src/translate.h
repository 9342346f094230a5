/* NAT64: IPv4 clients, IPv6-only backends. The ordered list's NAT64 element, the only face of it that a public program
 * shows, puts 64:ff9b::/96 in front of both addresses; the next pipe puts the backend's address in. Answers go the
 * other way round, which no public program shows: back to IPv4, then the VIP as their source. No state: the client is in
 * the IPv6 address. */
#ifndef TRANSLATE_H_
#define TRANSLATE_H_

#include "delivery.h"

bool translate_open(struct delivery *delivery, struct flow *flow, const struct budgets *budgets, struct fault *fault);

/* Queries with this mark go to the backend. */
bool translation_add(struct delivery *delivery, struct flow_port *in, uint32_t mark, const struct backend *backend,
                     struct doca_flow_pipe_entry **entry, struct fault *fault);
bool translation_update(struct delivery *delivery, struct flow_port *in, const struct backend *backend,
                        struct doca_flow_pipe_entry *entry, struct fault *fault);
/* Answers with this mark come from the VIP. */
bool answer_add(struct delivery *delivery, struct flow_port *out, uint32_t mark, const struct address *vip,
                struct doca_flow_pipe_entry **entry, struct fault *fault);

#endif
