/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#if COMPAT_API >= 33
#define NO_WAIT DOCA_FLOW_ENTRY_FLAGS_NO_WAIT
#define BASIC_ADD doca_flow_pipe_basic_add_entry
#define BASIC_UPDATE doca_flow_pipe_basic_update_entry
#else
#define NO_WAIT DOCA_FLOW_NO_WAIT
#define BASIC_ADD doca_flow_pipe_add_entry
#define BASIC_UPDATE doca_flow_pipe_update_entry
#endif

doca_error_t compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                            const struct doca_flow_actions *actions, void *context,
                            struct doca_flow_pipe_entry **entry)
{
    return BASIC_ADD(0, pipe, match, template, actions, NULL, NULL, NO_WAIT, context, entry);
}

doca_error_t compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template, const struct doca_flow_actions *actions,
                               struct doca_flow_pipe_entry *entry)
{
    return BASIC_UPDATE(0, pipe, template, actions, NULL, NULL, NO_WAIT, entry);
}

doca_error_t compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                              const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                              const struct doca_flow_actions *actions_mask, const struct doca_flow_monitor *monitor,
                              uint32_t priority, const struct doca_flow_fwd *fwd, void *context,
                              struct doca_flow_pipe_entry **entry)
{
#if COMPAT_API >= 33
    return doca_flow_pipe_control_add_entry(0, pipe, match, mask, NULL, actions, actions_mask, NULL, monitor, priority,
                                            fwd, context, entry);
#else
    return doca_flow_pipe_control_add_entry(0, priority, pipe, match, mask, NULL, actions, actions_mask, NULL, monitor,
                                            fwd, context, entry);
#endif
}

doca_error_t compat_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                           void *context, struct doca_flow_pipe_entry **entry)
{
    return doca_flow_pipe_hash_add_entry(0, pipe, index, 0, actions, NULL, NULL, NO_WAIT, context, entry);
}

doca_error_t compat_list_add(struct doca_flow_pipe *pipe, const struct doca_flow_ordered_list *list, void *context,
                           struct doca_flow_pipe_entry **entry)
{
    return doca_flow_pipe_ordered_list_add_entry(0, pipe, 0, list, NULL, NO_WAIT, context, entry);
}

doca_error_t compat_remove(struct doca_flow_pipe_entry *entry)
{
    return doca_flow_pipe_remove_entry(0, NO_WAIT, entry);
}
