/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarding modes: how a packet gets from its slot to the backend. Each mode is one object of the operations below,
 * in src/modes, and one line of the table FORWARD_MODES; nothing else asks which mode a VIP has.
 *
 *   slots-l2:    (VIP, slot) -> destination MAC, mark MARK_PLAIN                               -> port out
 *   slots-ipip:  (VIP, slot) -> mark: which tunnel   -> egress of port out: encap4 | encap6 | plain -> port out
 *   slots-siit:  (VIP, slot) -> mark: which backend  -> NAT64 list -> translated: IPv6 destination, MAC -> port out
 *
 * The mark is pkt_meta, which alone survives a change of domain and NAT64. */
#ifndef FORWARD_H_
#define FORWARD_H_

#include "pipe.h"

/* The table: the name is the program's word, and forward_NAME the object, in modes/NAME.c. */
#define FORWARD_MODES(MODE) \
    MODE(l2)                \
    MODE(ipip)              \
    MODE(siit)

enum { MARK_PLAIN = 1, FIRST_ID = 2, FORWARD_PIPES_MAX = 4 };

struct dataplane;
struct service;
struct target;

/* The pipes of one mode: opened when a program first needs the mode, and kept from then on. */
struct forward_pipes {
    struct doca_flow_pipe *slots;
    struct doca_flow_pipe *pipes[FORWARD_PIPES_MAX]; /* behind it; each mode numbers its own */
};

/* What a slot does with its packets: sets a MAC address, or a mark that leads to a target. */
struct slot_content {
    uint32_t mark;
    uint8_t mac[6];
};

/* The addresses that a target's entry writes; a mode leaves 0 what it does not write. */
struct target_headers {
    uint8_t src_mac[6], dst_mac[6];
    struct address src, dst;
};

/* For modes that have targets: entries behind the slots, one per backend and IP version of the queries. */
struct target_ops {
    unsigned port; /* whose pipes the entries are in: PORT_IN or PORT_OUT */
    struct target_headers (*headers)(const struct program *program, const struct backend *backend);
    /* `inner`: the IP version of the queries. */
    bool (*add)(const struct forward_pipes *pipes, struct flow_port *port, uint32_t mark, unsigned inner,
                const struct target_headers *headers, struct doca_flow_pipe_entry **entry, struct fault *fault);
    bool (*update)(const struct forward_pipes *pipes, struct flow_port *port, unsigned inner,
                   const struct target_headers *headers, struct doca_flow_pipe_entry *entry, struct fault *fault);
};

/* For modes whose answers come back through the program. */
struct answer_ops {
    /* Lets in answers of all backends that the VIP now has; those that cannot come any more are marked as unused. */
    bool (*sync)(struct dataplane *dataplane, struct service *service, const struct program *program,
                   const struct vip *vip, struct fault *fault);
    /* What the service before still lets in, and may come, the one that takes over lets in too, as far as there is
     * room. */
    bool (*inherit)(struct dataplane *dataplane, struct service *service, const struct service *before,
                    const struct program *program, struct fault *fault);
    /* Removes what is unused. */
    bool (*prune)(struct dataplane *dataplane, struct service *service, struct fault *fault);
    /* Removes entries of a service that leaves where they come before those of the other one, with another result. */
    bool (*yield)(struct dataplane *dataplane, struct service *leaving, const struct service *other,
                  struct fault *fault);
    /* All that hardware lets go; the rest stays the service's. */
    void (*remove)(struct dataplane *dataplane, struct service *service);
};

struct forward_ops {
    const char *name; /* the program's word */

    /* Checks of a program; NULL: nothing to check. `number` is the VIP's, `slot` one of the backend's. */
    bool (*check_vip)(const struct vip *vip, size_t number, struct fault *fault);
    bool (*check_backend)(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                          struct fault *fault);
    /* What VIPs of this mode must not share. */
    bool (*check_program)(const struct program *program, struct fault *fault);

    /* The pipes behind the slots; NULL: none. What opened before a failure stays and is used by the next try. */
    bool (*open)(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets, struct fault *fault);
    /* Where packets go from the slots. */
    struct doca_flow_fwd (*slots_fwd)(const struct forward_pipes *pipes);
    unsigned drop_pipes; /* bits: which of `pipes` drop and count what they have no entry for */

    /* A slot: its template, its content, and the entry's actions. target: NULL without targets. */
    void (*slot_template)(struct doca_flow_actions *actions);
    struct slot_content (*slot_content)(const struct backend *backend, const struct target *target);
    void (*slot_actions)(const struct slot_content *content, struct doca_flow_actions *actions);
    /* What `dump` says of a slot of this backend. */
    json_t *(*slot_report)(const char *backend, const struct slot_content *content);

    const struct target_ops *targets; /* NULL: slots do it all */
    const struct answer_ops *answers; /* NULL: answers do not come this way */
};

#define FORWARD_DECLARE(NAME) extern const struct forward_ops forward_##NAME;
FORWARD_MODES(FORWARD_DECLARE)
#undef FORWARD_DECLARE

#define FORWARD_COUNT(NAME) +1
enum { FORWARD_MODE_COUNT = FORWARD_MODES(FORWARD_COUNT) };
#undef FORWARD_COUNT

extern const struct forward_ops *const forward_modes[FORWARD_MODE_COUNT];

/* The mode's number in forward_modes. */
size_t forward_number(const struct forward_ops *forward);

/* Opens the mode's pipes if they are not. */
bool forward_open(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                  const struct forward_ops *forward, struct fault *fault);
/* Packets that the mode's pipes dropped for want of an entry are added. False if they cannot be read. */
bool forward_count_misses(const struct forward_pipes *pipes, const struct forward_ops *forward, uint64_t *packets);

bool slot_add(const struct forward_pipes *pipes, struct flow_port *port, const struct forward_ops *forward,
              uint32_t service, uint32_t number, const struct slot_content *content,
              struct doca_flow_pipe_entry **entry, struct fault *fault);
/* In place: packets meet the old content or the new one. */
bool slot_update(const struct forward_pipes *pipes, struct flow_port *port, const struct forward_ops *forward,
                 const struct slot_content *content, struct doca_flow_pipe_entry *entry, struct fault *fault);

/* For modes whose slots hold a mark. */
void slot_mark_template(struct doca_flow_actions *actions);
struct slot_content slot_mark_content(const struct backend *backend, const struct target *target);
void slot_mark_actions(const struct slot_content *content, struct doca_flow_actions *actions);
json_t *slot_mark_report(const char *backend, const struct slot_content *content);

/* For modes that send to the backend's IP address: whether it has one. */
bool check_backend_address(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                           struct fault *fault);

#endif
