/* SPDX-License-Identifier: Apache-2.0 */
/* A VIP as hardware has it: an entry of the classifier, its slots, and what leads answers back where they come this
 * way. */
#ifndef SERVICE_H_
#define SERVICE_H_

#include "dataplane.h"

/* Packets that went to a backend, also through slots that are another's now. */
struct backend_counter {
    char *name;
    uint64_t packets, bytes;
};

struct slot {
    struct doca_flow_pipe_entry *entry;
    struct slot_content content;
    bool current;            /* hardware has this content; false: something was refused late, and it may have another */
    unsigned counter;          /* whose packets it counts now */
    uint64_t packets, bytes; /* of its counter, that are in a counter already */
};

struct answer {
    struct address backend;
    struct doca_flow_pipe_entry *entry;
    uint32_t priority;
    bool added; /* hardware has it; false: it, or one added with it, was refused late */
    bool used;
    unsigned unused_since; /* the generation that took the backend's last slot; 0: it has slots */
    struct answer *next;
};

struct service {
    const struct vip *vip;
    struct vip own; /* what is kept of it when the program may go */
    struct probe own_probe;
    char *name;     /* the VIP's when it was built */
    uint32_t id, priority;
    struct selector *selector;
    struct doca_flow_pipe_entry *entry; /* NULL until packets may come */
    bool attached;                       /* they do come */
    struct slot *slots;
    unsigned slot_count;
    struct backend_counter *counters;
    unsigned counter_count;
    struct answer *answers;
    struct doca_flow_pipe_entry *source; /* that puts the VIP into answers */
    bool refused;                        /* hardware refused to update a slot */
    struct service *next;                /* among the leftovers */
};

/* Whether hardware's slots can become those of the VIP in place. */
bool service_updatable(const struct service *service, const struct vip *vip);
/* Whether both take the same packets. */
bool service_matches(const struct service *service, const struct vip *vip);

/* All but the entry that lets packets in. NULL if something was refused; then nothing of it is left. */
struct service *service_build(struct dataplane *dataplane, const struct program *program, const struct vip *vip,
                              uint32_t priority, struct fault *fault);
/* Slots again, of a service that has no packets yet: backends were moved to other targets. */
bool service_refresh(struct dataplane *dataplane, struct service *service, const struct program *program,
                     struct fault *fault);
bool service_attach(struct dataplane *dataplane, struct service *service, struct fault *fault);
/* Slots that differ, in place, after service_sync_answers(). On failure `refused` says whether hardware refused that: then
 * the service can be built anew beside. */
bool service_update(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault);
/* Entries for answers, for modes that have some; see struct answer_ops. */
bool service_sync_answers(struct dataplane *dataplane, struct service *service, const struct program *program,
                            const struct vip *vip, struct fault *fault);
bool service_inherit_answers(struct dataplane *dataplane, struct service *service, const struct service *before,
                             const struct program *program, struct fault *fault);
/* Of a service that leaves: answers that the other one lets in do not meet entries of this one first. */
bool service_yield_answers(struct dataplane *dataplane, struct service *leaving, const struct service *other,
                           struct fault *fault);
/* No packets come to it any more. On failure they may still. */
bool service_detach(struct dataplane *dataplane, struct service *service, struct fault *fault);
/* After service_detach(): takes everything of it out of hardware that it lets go. It counts no more. */
void service_dismantle(struct dataplane *dataplane, struct service *service);
/* From now on it does not need the program that it is of. */
void service_part(struct service *service);
void service_forget(struct service *service);

/* Brings the counters up to what hardware counted. */
bool service_count(struct service *service);
/* The successor's counters get what is counted so far, and it is no longer the service's own. */
void service_transfer_counts(struct service *service, struct service *successor);

#endif
