/* SPDX-License-Identifier: Apache-2.0 */
/* The calls whose shape differs between DOCA 3.2 and 3.3, in one shape. All use queue 0. */
#ifndef COMPAT_H_
#define COMPAT_H_

#include <doca_flow.h>
#include <doca_version.h>

/* 32 or 33: what the calls look like. Whoever builds against a release beyond these chooses one by hand: meson setup
 * -Ddoca_api=33. A test sets 32 to compile the older ones. */
#ifndef COMPAT_API
#if DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR == 3
#define COMPAT_API 33
#elif DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR == 2
#define COMPAT_API 32
#elif DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR == 4
#error "found DOCA 3.4, expected 3.2 or 3.3: its calls were not compared. To try those of 3.3: meson setup -Ddoca_api=33"
#elif DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR == 5
#error "found DOCA 3.5, expected 3.2 or 3.3: its calls were not compared. To try those of 3.3: meson setup -Ddoca_api=33"
#elif DOCA_VERSION_MAJOR > 3 || (DOCA_VERSION_MAJOR == 3 && DOCA_VERSION_MINOR > 5)
#error "found a DOCA after 3.5 (doca_version.h), expected 3.2 or 3.3. To try the calls of 3.3: meson setup -Ddoca_api=33"
#else
#error "found a DOCA before 3.2 (doca_version.h), expected 3.2 or 3.3: install one of these"
#endif
#elif COMPAT_API != 32 && COMPAT_API != 33
#error "COMPAT_API: expected 32 or 33"
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
