/* SPDX-License-Identifier: Apache-2.0 */
/* The library and its two ports, and the waiting for operations on entries. */
#ifndef FLOW_H_
#define FLOW_H_

#include <doca_flow.h>

#include "program.h"

enum { PORT_IN = 0, PORT_OUT = 1, PORTS = 2 };

struct doca_dev;
struct removals;

struct flow_port {
    struct doca_flow_port *port;
    struct doca_dev *dev;
    char name[NAME_SIZE];
    unsigned mtu; /* bytes; 0: not known */
    unsigned mtu_told; /* bits: of which headers the log has that they leave too little of it */
    unsigned index; /* of the network device that has the name; 0: it is an RDMA device's */
    int outstanding; /* operations that the callback has not reported; below 0: it reported some before they were counted */
    unsigned failed; /* those that it reported as failed */
    struct removals *removals;    /* that are under way; NULL: none */
};

struct flow {
    struct flow_port ports[PORTS];
    bool initialised;
};

/* Opens the program's two devices in VNF mode and pairs them. On failure nothing is left open. */
bool flow_up(struct flow *flow, const struct program *program, struct fault *fault);
void flow_down(struct flow *flow);

/* After a call that queued an operation: counts it, and empties the queue in time. */
bool flow_queued(struct flow_port *port, doca_error_t result, struct fault *fault, const char *what);
/* The same after a removal, whose refusal its struct removals keeps; those of additions stay for the next flow_wait(). */
void flow_queued_removal(struct flow_port *port);
/* Until all operations of the port are done; false if one failed or does not come back. */
bool flow_wait(struct flow_port *port, struct fault *fault);
/* What is under way comes back, whatever becomes of it; the next flow_wait() tells. */
void flow_flush(struct flow_port *port);
/* Whether the device is still there, and not another one of its name. */
bool flow_port_present(const struct flow_port *port);

#endif
