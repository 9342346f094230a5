/* SPDX-License-Identifier: Apache-2.0 */
/* A library with ports, as tests need it again and again. */
#ifndef TESTS_TESTBED_H_
#define TESTS_TESTBED_H_

#include <doca_bitfield.h>
#include <doca_flow.h>
#include <doca_flow_model.h>

#include "doca_assert.h"
#include "frame.h"

enum { TESTBED_PORTS = 6, TESTBED_QUEUES = 2, TESTBED_BUDGET = 64 };

/* What the entry callback saw. */
struct seen {
    unsigned adds, updates, removals, aged, errors;
};

extern struct doca_flow_port *testbed_port[TESTBED_PORTS];

/* Callbacks for the next testbed_up(), instead of the one that fills a struct seen. */
void testbed_callbacks(doca_flow_entry_process_cb entry, doca_flow_pipe_process_cb pipe);
/* Ports 0..ports-1, resources per port, TESTBED_BUDGET of each kind. In switch mode port 0 is the manager. */
void testbed_up(const char *mode, unsigned ports);
void testbed_down(void);

/* A pipe configuration with the usual settings. */
struct doca_flow_pipe_cfg *testbed_cfg(unsigned port, const char *name, enum doca_flow_pipe_type type, bool root);
struct doca_flow_pipe *testbed_create(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                                    const struct doca_flow_fwd *miss);
void testbed_process(unsigned port);
/* A root pipe that matches everything and forwards so. */
struct doca_flow_pipe *testbed_all(unsigned port, const struct doca_flow_fwd *fwd);

struct doca_flow_fwd to_port(uint16_t id);
struct doca_flow_fwd to_pipe(struct doca_flow_pipe *pipe);
struct doca_flow_fwd to_drop(void);

/* Sends the frame in; there must be one output, with this verdict. Free the result. */
struct doca_flow_model_result testbed_send(unsigned port, const struct frame *frame,
                                         enum doca_flow_model_verdict verdict);
/* The same, for the verdict only. */
void testbed_expect(unsigned port, const struct frame *frame, enum doca_flow_model_verdict verdict);
/* The frame leaves by this port with exactly these bytes. */
void testbed_expect_frame(unsigned in, const struct frame *frame, unsigned out, const struct frame *expected);

uint64_t testbed_packets(struct doca_flow_pipe_entry *entry);

#endif
