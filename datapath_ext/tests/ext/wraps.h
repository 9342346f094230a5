/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that tests replace: the linker gives __wrap_X to whoever calls X, and X itself is __real_X. */
#ifndef TESTS_EXT_WRAPS_H_
#define TESTS_EXT_WRAPS_H_

#include "flow.h"
#include "pipe.h"
#include "compat.h"

bool __real_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault);
bool __wrap_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault);

doca_error_t __real_compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry);

doca_error_t __real_compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry);
doca_error_t __wrap_compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry);

doca_error_t __real_compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry);

doca_error_t __real_compat_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_compat_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry);

doca_error_t __real_compat_remove(struct doca_flow_pipe_entry *entry);
doca_error_t __wrap_compat_remove(struct doca_flow_pipe_entry *entry);

bool __real_flow_wait(struct flow_port *port, struct fault *fault);
bool __wrap_flow_wait(struct flow_port *port, struct fault *fault);

bool __real_flow_queued(struct flow_port *port, doca_error_t result, struct fault *fault, const char *what);
bool __wrap_flow_queued(struct flow_port *port, doca_error_t result, struct fault *fault, const char *what);
void __real_flow_queued_removal(struct flow_port *port);
void __wrap_flow_queued_removal(struct flow_port *port);

bool __real_count_entry(struct doca_flow_pipe_entry *entry, uint64_t *packets, uint64_t *bytes);
bool __wrap_count_entry(struct doca_flow_pipe_entry *entry, uint64_t *packets, uint64_t *bytes);

#endif
