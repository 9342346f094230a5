/* SPDX-License-Identifier: Apache-2.0 */
/* From a packet to a number of a slot, in u32[0]. VIPs that choose in the same way share one selector: whose the slot
 * is stays in u32[1]. What a selector holds never changes, so nothing in it ever needs to be replaced. */
#ifndef SELECTOR_H_
#define SELECTOR_H_

#include "forward.h"

/* The table: the name is the program's word, and select_NAME the object, in selections/NAME.c. */
#define SELECTIONS(SELECTION) \
    SELECTION(slots)          \
    SELECTION(client)         \
    SELECTION(spray)

/* What VIPs must agree in to share one; members that do not matter to the way of choosing are 0. */
struct selector_key {
    const struct select_ops *select;
    const struct forward_ops *forward;
    unsigned family, fields, slot_count;
    uint8_t protocol;
    const uint16_t *numbers; /* of probes: one per slot, the VIP's or the selector's own */
};

/* A way to choose a slot. */
struct select_ops {
    const char *name; /* the program's word */
    bool has_fields;  /* the program names fields for it: hash_fields */
    enum doca_flow_pipe_type type; /* BASIC: an entry per value of the matched bits; HASH: per value of the hash */
    /* The members of the key that matter. */
    void (*fill_key)(const struct vip *vip, struct selector_key *key);
    /* The bits of a packet that choose; `match` is for BASIC pipes only. */
    void (*fill_match)(const struct selector_key *key, struct doca_flow_match *match, struct doca_flow_match *mask);
    /* For BASIC pipes: the packets of a slot. */
    void (*match_slot)(const struct selector_key *key, uint32_t slot, struct doca_flow_match *match);
};

#define SELECT_DECLARE(NAME) extern const struct select_ops select_##NAME;
SELECTIONS(SELECT_DECLARE)
#undef SELECT_DECLARE
/* How probes choose; no word of the program. */
extern const struct select_ops select_probes;

#define SELECT_COUNT(NAME) +1
enum { SELECTION_COUNT = SELECTIONS(SELECT_COUNT) };
#undef SELECT_COUNT

extern const struct select_ops *const selections[SELECTION_COUNT];

/* The header's ports, for the key's protocol. */
struct doca_flow_header_l4_port *selector_ports(struct doca_flow_match *match, uint8_t protocol);

struct selector {
    struct selector_key key;
    uint16_t *numbers; /* the key's */
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
void selector_put(struct selector **all, struct flow_port *port, struct selector *selector);
/* Its memory alone. */
void selector_free(struct selector *selector);

#endif
