/* SPDX-License-Identifier: Apache-2.0 */
/* The first pipe of each port: which packets are whose. A CONTROL pipe, because IPv4 and IPv6 meet here. Everything
 * that is nobody's is dropped and counted, by what it was. */
#ifndef CLASSIFIER_H_
#define CLASSIFIER_H_

#include "pipe.h"

enum drop_reason {
    DROP_MALFORMED4,
    DROP_MALFORMED6,
    DROP_CHECKSUM,
    DROP_FRAGMENT4,
    DROP_FRAGMENT6,
    DROP_OTHER,
    DROP_REASONS,
};

/* Two levels, so that an entry can be put beside the one it replaces: whichever wins, a packet meets one of them. Their
 * matches differ by a bit that all packets have. Probes come before clients' packets, which their entries are a part of. */
enum {
    PRIORITY_DROP = 0,
    PRIORITY_PROBE_HIGH = 1,
    PRIORITY_PROBE_LOW = 2,
    PRIORITY_HIGH = 3,
    PRIORITY_LOW = 4,
    PRIORITY_DEFAULT = 7
};

/* Addresses of one network; the length in whole bytes' bits. */
struct prefix {
    struct address address;
    unsigned length;
};

struct classifier {
    struct flow_port *port;
    struct doca_flow_pipe *pipe;
    struct doca_flow_pipe_entry *drops[DROP_REASONS];
};

bool classifier_open(struct classifier *classifier, struct flow_port *port, uint32_t entries, struct fault *fault);

/* Queries to the VIP, of clients or of probes: they get the service's id in u32[1] and go on to `next`. */
bool classifier_add(struct classifier *classifier, const struct vip *vip, uint32_t id, uint32_t priority,
                    struct doca_flow_pipe *next, struct doca_flow_pipe_entry **entry, struct fault *fault);
/* Answers of a backend to clients in the prefix: they get the service's id in pkt_meta. */
bool classifier_add_answer(struct classifier *classifier, const struct vip *vip, const struct address *backend,
                           const struct prefix *clients, uint32_t id, uint32_t priority,
                           const struct doca_flow_fwd *fwd, struct doca_flow_pipe_entry **entry, struct fault *fault);

/* Fragments of both IP versions have the same name. */
const char *drop_reason_name(enum drop_reason reason);

#endif
