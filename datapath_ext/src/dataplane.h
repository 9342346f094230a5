/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that hardware holds, and how it follows a program. */
#ifndef DATAPLANE_H_
#define DATAPLANE_H_

#include "classifier.h"
#include "forward.h"
#include "selector.h"
#include "target.h"

struct service;

struct dataplane {
    struct flow flow;
    struct budgets budgets;
    struct classifier queries, answers; /* of the port in, and of the port out */
    struct forward_pipes forwarding[FORWARD_MODE_COUNT]; /* as forward_modes */
    struct selector *selectors;
    struct target *targets;
    struct service **services;
    size_t service_count;
    struct service *leftovers; /* what hardware did not let go of services that are none any more */
    uint32_t next_id; /* of services and targets; never used twice */
    unsigned generation; /* programs that it was to apply so far */
    unsigned answer_count, answers_most; /* entries for answers, of all services */
    /* What the latest program took. */
    unsigned added, replaced, removed, slots_updated, targets_updated, targets_superseded;
};

/* Ports and classifiers, with no VIP yet. */
bool dataplane_open(struct dataplane *dataplane, const struct program *program, struct fault *fault);
void dataplane_close(struct dataplane *dataplane);

/* The service that has the VIP's packets; NULL: there is none. */
struct service *dataplane_find(const struct dataplane *dataplane, const struct vip *vip);

/* Whether anything of it still points into the program. */
bool dataplane_uses(const struct dataplane *dataplane, const struct program *program);

/* Whether the program fits the ports, the budgets, and what hardware has not let go of earlier ones, which is tried once
 * more. On failure packets fare as before. */
bool dataplane_check(struct dataplane *dataplane, const struct program *program, struct fault *fault);
/* Makes hardware do what the program says: what is the same stays untouched. The program must live until the next one
 * is in place. On failure some of it may have been done; following the program before undoes it. */
bool dataplane_apply(struct dataplane *dataplane, const struct program *program, struct fault *fault);

#endif
