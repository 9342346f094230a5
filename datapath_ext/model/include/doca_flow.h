/* SPDX-License-Identifier: Apache-2.0 */
/* The flow API: pipes of matches and actions on ports, and entries in them.
 *
 * Names, types and signatures follow DOCA 3.3 for a subset; the semantics of the model are in its README. Every call
 * that returns doca_error_t and refuses leaves a sentence in doca_flow_model_reason() (doca_flow_model.h). */
#ifndef DOCA_FLOW_H_
#define DOCA_FLOW_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_flow_crypto.h>
#include <doca_flow_enums.h>
#include <doca_flow_net.h>
#include <doca_flow_structs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOCA_FLOW_FLAGS_SET(flags, flag) ((flags) |= (flag))
#define DOCA_FLOW_FLAGS_UNSET(flags, flag) ((flags) &= ~(flag))
#define DOCA_FLOW_FLAGS_IS_SET(flags, flag) (((flags) & (flag)) != 0)

struct doca_dev;
struct doca_dev_rep;
struct doca_flow_cfg;
struct doca_flow_definitions;
struct doca_flow_pipe_cfg;
struct doca_flow_pipe_entry;
struct doca_flow_port;
struct doca_flow_port_cfg;

typedef void (*doca_flow_entry_process_cb)(struct doca_flow_pipe_entry *entry, uint16_t pipe_queue,
                                           enum doca_flow_entry_status status, enum doca_flow_entry_op op,
                                           void *user_ctx);
typedef void (*doca_flow_pipe_process_cb)(struct doca_flow_pipe *pipe, enum doca_flow_pipe_status status,
                                          enum doca_flow_pipe_op op, void *user_ctx);
typedef doca_error_t (*doca_flow_pipe_resize_nr_entries_changed_cb)(void *pipe_user_ctx, uint32_t nr_entries);
typedef doca_error_t (*doca_flow_pipe_resize_entry_relocate_cb)(void *pipe_user_ctx, uint16_t pipe_queue,
                                                                void *entry_user_ctx, void **new_entry_user_ctx);

/* Library: configured and initialised once per process. */
doca_error_t doca_flow_cfg_create(struct doca_flow_cfg **cfg);
doca_error_t doca_flow_cfg_destroy(struct doca_flow_cfg *cfg);
doca_error_t doca_flow_cfg_set_pipe_queues(struct doca_flow_cfg *cfg, uint16_t pipe_queues);
doca_error_t doca_flow_cfg_set_nr_counters(struct doca_flow_cfg *cfg, uint32_t nr_counters);
doca_error_t doca_flow_cfg_set_nr_meters(struct doca_flow_cfg *cfg, uint32_t nr_meters);
doca_error_t doca_flow_cfg_set_mode_args(struct doca_flow_cfg *cfg, const char *mode_args);
doca_error_t doca_flow_cfg_set_nr_shared_resource(struct doca_flow_cfg *cfg, uint32_t nr_shared_resource,
                                                  enum doca_flow_shared_resource_type type);
doca_error_t doca_flow_cfg_set_queue_depth(struct doca_flow_cfg *cfg, uint32_t queue_depth);
doca_error_t doca_flow_cfg_set_cb_pipe_process(struct doca_flow_cfg *cfg, doca_flow_pipe_process_cb cb);
doca_error_t doca_flow_cfg_set_cb_entry_process(struct doca_flow_cfg *cfg, doca_flow_entry_process_cb cb);
doca_error_t doca_flow_cfg_set_definitions(struct doca_flow_cfg *cfg, const struct doca_flow_definitions *defs);
doca_error_t doca_flow_cfg_set_resource_mode(struct doca_flow_cfg *cfg, const enum doca_flow_resource_mode mode);
doca_error_t doca_flow_init(struct doca_flow_cfg *cfg);
void doca_flow_destroy(void);

/* Ports. */
doca_error_t doca_flow_port_cfg_create(struct doca_flow_port_cfg **cfg);
doca_error_t doca_flow_port_cfg_destroy(struct doca_flow_port_cfg *cfg);
doca_error_t doca_flow_port_cfg_set_port_id(struct doca_flow_port_cfg *cfg, uint16_t port_id);
doca_error_t doca_flow_port_cfg_set_dev(struct doca_flow_port_cfg *cfg, struct doca_dev *dev);
doca_error_t doca_flow_port_cfg_set_dev_rep(struct doca_flow_port_cfg *cfg, struct doca_dev_rep *dev_rep);
doca_error_t doca_flow_port_cfg_set_devargs(struct doca_flow_port_cfg *cfg, const char *devargs);
doca_error_t doca_flow_port_cfg_set_operation_state(struct doca_flow_port_cfg *cfg,
                                                    enum doca_flow_port_operation_state state);
doca_error_t doca_flow_port_cfg_set_actions_mem_size(struct doca_flow_port_cfg *cfg, uint32_t size);
doca_error_t doca_flow_port_cfg_set_nr_resources(struct doca_flow_port_cfg *cfg, enum doca_flow_resource type,
                                                 uint32_t nr_resources);
doca_error_t doca_flow_port_cfg_set_service_threads_cycle(struct doca_flow_port_cfg *cfg, uint32_t cycle_ms);
doca_error_t doca_flow_port_start(const struct doca_flow_port_cfg *cfg, struct doca_flow_port **port);
doca_error_t doca_flow_port_stop(struct doca_flow_port *port);
doca_error_t doca_flow_port_pair(struct doca_flow_port *port, struct doca_flow_port *pair_port);
doca_error_t doca_flow_port_operation_state_modify(struct doca_flow_port *port,
                                                   enum doca_flow_port_operation_state state);
struct doca_flow_port *doca_flow_port_switch_get(const struct doca_flow_port *port);
void doca_flow_port_pipes_flush(struct doca_flow_port *port);
doca_error_t doca_flow_port_shared_resource_get(struct doca_flow_port *port,
                                                enum doca_flow_shared_resource_type type, uint32_t *id);
doca_error_t doca_flow_port_shared_resource_set_cfg(struct doca_flow_port *port,
                                                    enum doca_flow_shared_resource_type type, uint32_t id,
                                                    struct doca_flow_shared_resource_cfg *cfg);
doca_error_t doca_flow_port_shared_resources_query(struct doca_flow_port *port,
                                                   enum doca_flow_shared_resource_type type, uint32_t *ids,
                                                   struct doca_flow_resource_query *results, uint32_t count);

/* Pipes. Whatever a setter or doca_flow_pipe_create() is given is copied. */
doca_error_t doca_flow_pipe_cfg_create(struct doca_flow_pipe_cfg **cfg, struct doca_flow_port *port);
doca_error_t doca_flow_pipe_cfg_destroy(struct doca_flow_pipe_cfg *cfg);
doca_error_t doca_flow_pipe_cfg_set_match(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_match *match,
                                          const struct doca_flow_match *match_mask);
doca_error_t doca_flow_pipe_cfg_set_actions(struct doca_flow_pipe_cfg *cfg, struct doca_flow_actions *const *actions,
                                            struct doca_flow_actions *const *actions_masks,
                                            struct doca_flow_action_descs *const *action_descs, size_t nr_actions);
doca_error_t doca_flow_pipe_cfg_set_monitor(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_monitor *monitor);
doca_error_t doca_flow_pipe_cfg_set_ordered_lists(struct doca_flow_pipe_cfg *cfg,
                                                  struct doca_flow_ordered_list *const *ordered_lists,
                                                  size_t nr_ordered_lists);
doca_error_t doca_flow_pipe_cfg_set_name(struct doca_flow_pipe_cfg *cfg, const char *name);
doca_error_t doca_flow_pipe_cfg_set_label(struct doca_flow_pipe_cfg *cfg, const char *label);
doca_error_t doca_flow_pipe_cfg_set_type(struct doca_flow_pipe_cfg *cfg, enum doca_flow_pipe_type type);
doca_error_t doca_flow_pipe_cfg_set_domain(struct doca_flow_pipe_cfg *cfg, enum doca_flow_pipe_domain domain);
doca_error_t doca_flow_pipe_cfg_set_is_root(struct doca_flow_pipe_cfg *cfg, bool is_root);
doca_error_t doca_flow_pipe_cfg_set_nr_entries(struct doca_flow_pipe_cfg *cfg, uint32_t nr_entries);
doca_error_t doca_flow_pipe_cfg_set_is_resizable(struct doca_flow_pipe_cfg *cfg, bool is_resizable);
doca_error_t doca_flow_pipe_cfg_set_excluded_queue(struct doca_flow_pipe_cfg *cfg, uint16_t excluded_queue);
doca_error_t doca_flow_pipe_cfg_set_miss_counter(struct doca_flow_pipe_cfg *cfg, bool miss_counter);
doca_error_t doca_flow_pipe_cfg_set_congestion_level_threshold(struct doca_flow_pipe_cfg *cfg, uint8_t percent);
doca_error_t doca_flow_pipe_cfg_set_user_ctx(struct doca_flow_pipe_cfg *cfg, void *user_ctx);
doca_error_t doca_flow_pipe_cfg_set_hash_map_algorithm(struct doca_flow_pipe_cfg *cfg, uint32_t algorithm_flags);
doca_error_t doca_flow_pipe_create(const struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                                   const struct doca_flow_fwd *fwd_miss, struct doca_flow_pipe **pipe);
void doca_flow_pipe_destroy(struct doca_flow_pipe *pipe);
void doca_flow_pipe_dump(struct doca_flow_pipe *pipe, FILE *file);
doca_error_t doca_flow_pipe_update_miss(struct doca_flow_pipe *pipe, const struct doca_flow_fwd *fwd_miss);
doca_error_t doca_flow_pipe_resize(struct doca_flow_pipe *pipe, uint8_t new_congestion_level,
                                   doca_flow_pipe_resize_nr_entries_changed_cb nr_entries_changed_cb,
                                   doca_flow_pipe_resize_entry_relocate_cb entry_relocate_cb);
doca_error_t doca_flow_pipe_calc_hash(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                      uint32_t *hash);
doca_error_t doca_flow_port_calc_entropy(struct doca_flow_port *port, struct doca_flow_entropy_format *header,
                                         uint16_t *entropy);

/* Entries. Operations are queued; doca_flow_entries_process() completes them and calls back. */
doca_error_t doca_flow_pipe_basic_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe,
                                            const struct doca_flow_match *match, uint8_t action_idx,
                                            const struct doca_flow_actions *actions,
                                            const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                            uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry);
doca_error_t doca_flow_pipe_basic_update_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint8_t action_idx,
                                               const struct doca_flow_actions *actions,
                                               const struct doca_flow_monitor *monitor,
                                               const struct doca_flow_fwd *fwd, uint32_t flags,
                                               struct doca_flow_pipe_entry *entry);
doca_error_t doca_flow_pipe_control_add_entry(
    uint16_t pipe_queue, struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
    const struct doca_flow_match *match_mask, const struct doca_flow_match_condition *condition,
    const struct doca_flow_actions *actions, const struct doca_flow_actions *actions_mask,
    const struct doca_flow_action_descs *action_descs, const struct doca_flow_monitor *monitor, uint32_t priority,
    const struct doca_flow_fwd *fwd, void *usr_ctx, struct doca_flow_pipe_entry **entry);
doca_error_t doca_flow_pipe_hash_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint32_t entry_index,
                                           uint8_t action_idx, const struct doca_flow_actions *actions,
                                           const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                           uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry);
doca_error_t doca_flow_pipe_lpm_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe,
                                          const struct doca_flow_match *match,
                                          const struct doca_flow_match *match_mask, uint8_t action_idx,
                                          const struct doca_flow_actions *actions,
                                          const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                          uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry);
doca_error_t doca_flow_pipe_ordered_list_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint32_t idx,
                                                   const struct doca_flow_ordered_list *ordered_list,
                                                   const struct doca_flow_fwd *fwd, uint32_t flags, void *usr_ctx,
                                                   struct doca_flow_pipe_entry **entry);
doca_error_t doca_flow_pipe_remove_entry(uint16_t pipe_queue, uint32_t flags, struct doca_flow_pipe_entry *entry);
enum doca_flow_entry_status doca_flow_pipe_entry_get_status(struct doca_flow_pipe_entry *entry);

/* Completes at most max_processed queued operations (0: all); a timeout of 0 µs means one pass. */
doca_error_t doca_flow_entries_process(struct doca_flow_port *port, uint16_t pipe_queue, uint64_t timeout,
                                       uint32_t max_processed_entries);
doca_error_t doca_flow_resource_query_entry(struct doca_flow_pipe_entry *entry,
                                            struct doca_flow_resource_query *query);
doca_error_t doca_flow_resource_query_pipe_miss(struct doca_flow_pipe *pipe, struct doca_flow_resource_query *query);
int doca_flow_aging_handle(struct doca_flow_port *port, uint16_t queue, uint64_t quota, uint64_t max_entries);
doca_error_t doca_flow_get_target(enum doca_flow_target_type type, struct doca_flow_target **target);

#ifdef __cplusplus
}
#endif

#endif
