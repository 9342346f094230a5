/* From a packet to a number of a slot, in u32[0]. VIPs that choose in the same way share one selector: whose the slot
 * is stays in u32[1]. What a selector holds never changes, so nothing in it ever needs to be replaced. */
#ifndef SELECTOR_H_
#define SELECTOR_H_

#include "forward.h"

/* What VIPs must agree in to share one; members that do not matter to the way of choosing are 0. */
struct selector_key {
    enum select select;
    const struct forward_ops *forward;
    unsigned family, fields, slot_count;
    uint8_t protocol;
};

struct selector {
    struct selector_key key;
    struct doca_flow_pipe *pipe;
    unsigned users;
    struct selector *next;
};

struct selector_key selector_key_of(const struct vip *vip);
bool selector_key_same(const struct selector_key *one, const struct selector_key *other);

/* The one for this VIP, made if there is none, with one user more. */
struct selector *selector_get(struct selector **all, struct flow_port *port, const struct vip *vip,
                              struct doca_flow_pipe *slots, struct fault *fault);
/* One user less; without users it goes. No entry may point to it any more. */
void selector_put(struct selector **all, struct selector *selector);

#endif
