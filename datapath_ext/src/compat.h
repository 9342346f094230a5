/* The calls whose shape differs between DOCA 3.2 and 3.3, in one shape. All use queue 0. */
#ifndef COMPAT_H_
#define COMPAT_H_

#include <doca_flow.h>
#include <doca_version.h>

/* 32 or 33: what the calls look like. A test sets it to compile the older ones. */
#ifndef COMPAT_API
#if DOCA_VERSION_MAJOR > 3 || (DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR >= 3)
#define COMPAT_API 33
#elif DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR == 2
#define COMPAT_API 32
#else
#error "dnsteer-ext knows the calls of DOCA 3.2 and 3.3"
#endif
#endif

/* The ordered list's NAT64 element came with 3.3; without it there is no proven way to translate. */
#define COMPAT_HAS_NAT64 (COMPAT_API >= 33)

doca_error_t compat_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                            const struct doca_flow_actions *actions, void *context,
                            struct doca_flow_pipe_entry **entry);
doca_error_t compat_basic_update(struct doca_flow_pipe *pipe, uint8_t template, const struct doca_flow_actions *actions,
                               struct doca_flow_pipe_entry *entry);
doca_error_t compat_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                              const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                              const struct doca_flow_actions *actions_mask, const struct doca_flow_monitor *monitor,
                              uint32_t priority, const struct doca_flow_fwd *fwd, void *context,
                              struct doca_flow_pipe_entry **entry);
doca_error_t compat_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                           void *context, struct doca_flow_pipe_entry **entry);
doca_error_t compat_list_add(struct doca_flow_pipe *pipe, const struct doca_flow_ordered_list *list, void *context,
                           struct doca_flow_pipe_entry **entry);
doca_error_t compat_remove(struct doca_flow_pipe_entry *entry);

#endif
