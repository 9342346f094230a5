/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnels and translations: one per backend (and, in tunnels, IP version inside), which slots point to by its mark. A
 * backend that changes is changed here, once, however many slots it has. */
#ifndef TARGET_H_
#define TARGET_H_

#include "forward.h"

struct dataplane;

struct target {
    const struct forward_ops *forward;
    char *name; /* the backend's */
    unsigned outer, inner;
    uint32_t mark;
    struct target_headers headers; /* what hardware has */
    struct doca_flow_pipe_entry *entry;
    bool added;   /* hardware has it; false: it refused late, and what it has is to be removed */
    bool current; /* it has these values; false: it refused an update late, and may have others */
    bool used;
    bool superseded; /* hardware refused to update it: another one takes its place, and slots move there */
    bool leaving;    /* nothing points to it, and hardware did not let it go yet */
    struct target *next;
};

/* The target of this backend for queries of the VIP. */
struct target *target_find(const struct dataplane *dataplane, const struct vip *vip, const struct backend *backend);
/* Adds what the program needs and is not there; what it does not need is marked as unused. No packet sees a change. */
bool targets_add(struct dataplane *dataplane, const struct program *program, struct fault *fault);
/* Makes those that are there as the program needs them: in place, or by another one if hardware refuses that. */
bool targets_update(struct dataplane *dataplane, const struct program *program, struct fault *fault);
/* Removes what is unused. */
void targets_prune(struct dataplane *dataplane);
/* Removes what hardware did not let go before. */
void targets_retry(struct dataplane *dataplane);
void targets_forget(struct dataplane *dataplane);

#endif
