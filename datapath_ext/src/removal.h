/* SPDX-License-Identifier: Apache-2.0 */
/* Removing entries. Hardware may refuse that, at once or when the operation completes; who asked keeps the handle then, and
 * tries again another time. */
#ifndef REMOVAL_H_
#define REMOVAL_H_

#include "flow.h"

enum { REMOVALS_MAX = 256 }; /* at once; fewer than a queue holds */

/* Removals under way. */
struct removals {
    struct flow_port *port;
    struct doca_flow_pipe_entry **handles[REMOVALS_MAX];
    enum { REMOVAL_WAITS, REMOVAL_DONE, REMOVAL_REFUSED } states[REMOVALS_MAX];
    unsigned count, first; /* first: those before it were reported */
    unsigned refused, lost; /* lost: hardware took them and does not report */
    doca_error_t code; /* of the latest that was refused at once */
};

/* The handles that are added must stay where they are until removals_end(). One at a time per port. */
void removals_begin(struct removals *removals, struct flow_port *port);
/* Handles that are NULL are left out. */
void removals_add(struct removals *removals, struct doca_flow_pipe_entry **handle);
/* Waits. Handles of entries that are gone become NULL; the number of the others is returned. */
unsigned removals_end(struct removals *removals);
/* Called back: whether the entry is one of these. Entries go with their pipes too, and nobody waits for those. */
bool removals_report(struct removals *removals, const struct doca_flow_pipe_entry *entry, bool refused);

/* One entry that must go before the program goes on: refused, it is tried again a few times. */
bool remove_entry(struct flow_port *port, struct doca_flow_pipe_entry **handle, struct fault *fault, const char *what);

#endif
