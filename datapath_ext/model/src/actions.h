/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the packets of an entry: a template's actions with the entry's values put in. */
#ifndef MODEL_ACTIONS_H_
#define MODEL_ACTIONS_H_

#include <doca_error.h>
#include <doca_flow.h>

#include "fields.h"
#include "tunnel.h"

/* One set of actions as given to the API, copied. */
struct action_template {
    struct doca_flow_actions actions;
    struct doca_flow_actions mask;
    bool has_mask;
    struct doca_flow_action_desc *descs; /* with strings of its own */
    unsigned desc_count;
};

doca_error_t template_copy(const struct doca_flow_actions *actions, const struct doca_flow_actions *mask,
                           const struct doca_flow_action_descs *descs, struct action_template *target);
void template_clear(struct action_template *target);

enum op_kind { OP_SET, OP_ADD, OP_COPY };

struct op {
    enum op_kind kind;
    struct place dst, src;
    bool has_src;
    unsigned dst_bit, src_bit, width; /* of ADD and COPY */
    uint8_t value[FIELD_MAX], mask[FIELD_MAX];
};

struct action_set {
    struct op *ops;
    size_t op_count;
    bool decap, encap, pop_vlan, push_vlan;
    bool own_encap; /* not shared: counted against the port's budget, as decaps all are */
    struct decap_header decap_header;
    struct encap_header encap_header;
    uint16_t push_type, push_tci;
    enum doca_flow_l3_type nat64;
};

/* How the entry's actions are read. */
enum compile_mode {
    COMPILE_SHAPE, /* no entry yet: only check the template */
    COMPILE_ENTRY, /* all ones in the template are the entry's; `entry` may be NULL if there are none */
    COMPILE_LITERAL, /* the template is the entry's own: every value is meant */
};

/* The set must be cleared, also after an error. */
doca_error_t actions_compile(const struct action_template *shape, enum compile_mode mode,
                          const struct doca_flow_actions *entry, struct doca_flow_port *port, struct action_set *set);
void actions_clear(struct action_set *set);

enum actions_outcome { ACTIONS_DONE, ACTIONS_UNPROVEN, ACTIONS_BROKEN };

/* In the documented order: decap, pop, (NAT64,) meta, headers, push, encap. *why is set unless done. */
enum actions_outcome actions_apply(const struct action_set *set, struct packet *packet, const char **why);

#endif
