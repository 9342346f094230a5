/* SPDX-License-Identifier: Apache-2.0 */
#include "removal.h"

#include "compat.h"

enum { TRIES = 3 };

void removals_begin(struct removals *removals, struct flow_port *port)
{
    removals->port = port;
    removals->count = removals->first = removals->refused = removals->lost = 0;
    removals->code = DOCA_SUCCESS;
    port->removals = removals;
}

static void settle(struct removals *removals)
{
    flow_flush(removals->port);
    for (unsigned i = 0; i < removals->count; i++) {
        if (removals->states[i] == REMOVAL_REFUSED) {
            removals->refused++;
            continue;
        }
        *removals->handles[i] = NULL;
        if (removals->states[i] == REMOVAL_WAITS) { /* nobody waits for it from now on */
            removals->lost++;
            removals->port->outstanding--;
        }
    }
    removals->count = removals->first = 0;
}

void removals_add(struct removals *removals, struct doca_flow_pipe_entry **handle)
{
    doca_error_t result;

    if (*handle == NULL)
        return;
    if (removals->count == REMOVALS_MAX)
        settle(removals);
    removals->handles[removals->count] = handle;
    removals->states[removals->count++] = REMOVAL_WAITS;
    result = compat_remove(*handle);
    if (result != DOCA_SUCCESS) {
        removals->states[removals->count - 1] = REMOVAL_REFUSED;
        removals->code = result;
    } else {
        flow_queued_removal(removals->port);
    }
}

unsigned removals_end(struct removals *removals)
{
    settle(removals);
    removals->port->removals = NULL;
    return removals->refused;
}

bool removals_report(struct removals *removals, const struct doca_flow_pipe_entry *entry, bool refused)
{
    for (unsigned i = removals->first; i < removals->count; i++) {
        if (*removals->handles[i] != entry || removals->states[i] != REMOVAL_WAITS)
            continue;
        removals->states[i] = refused ? REMOVAL_REFUSED : REMOVAL_DONE;
        while (removals->first < removals->count && removals->states[removals->first] != REMOVAL_WAITS)
            removals->first++; /* they come in order */
        return true;
    }
    return false;
}

bool remove_entry(struct flow_port *port, struct doca_flow_pipe_entry **handle, struct fault *fault, const char *what)
{
    struct removals removals;

    for (unsigned i = 0; i < TRIES; i++) {
        removals_begin(&removals, port);
        removals_add(&removals, handle);
        if (removals_end(&removals) == 0)
            return removals.lost == 0 || fault_set(fault, "%s does not complete", what);
    }
    return fault_doca(fault, removals.code != DOCA_SUCCESS ? removals.code : DOCA_ERROR_DRIVER, "%s", what);
}
