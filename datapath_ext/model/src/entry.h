/* SPDX-License-Identifier: Apache-2.0 */
/* The frame in which each kind of entry is added; the model's lock is held throughout. */
#ifndef MODEL_ENTRY_H_
#define MODEL_ENTRY_H_

#include "objects.h"

/* Checks the pipe's type, the queue and the room, and makes an entry. */
doca_error_t entry_begin(struct doca_flow_pipe *pipe, enum doca_flow_pipe_type type, uint16_t queue, uint32_t flags,
                         void *user_ctx, struct doca_flow_pipe_entry **entry);
/* Queues the entry, or frees it if `result` or a check says no; `out` may be NULL. */
doca_error_t entry_end(struct doca_flow_pipe_entry *entry, uint16_t queue, uint32_t flags, doca_error_t result,
                       struct doca_flow_pipe_entry **out);
doca_error_t entry_update(enum doca_flow_pipe_type type, uint16_t queue, struct doca_flow_pipe *pipe,
                          uint8_t action_idx, const struct doca_flow_actions *actions,
                          const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd, uint32_t flags,
                          struct doca_flow_pipe_entry *entry);

#endif
