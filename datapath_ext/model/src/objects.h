/* SPDX-License-Identifier: Apache-2.0 */
/* Ports, pipes and entries, as they refer to each other. */
#ifndef MODEL_OBJECTS_H_
#define MODEL_OBJECTS_H_

#include "actions.h"
#include "core.h"
#include "match.h"
#include "meter.h"
#include "shared.h"

enum { DOMAINS = 4 };

struct netdev; /* a network device that a port is connected to */

struct doca_flow_port_cfg {
    bool has_id;
    uint16_t id;
    struct doca_dev *dev;
    struct doca_dev_rep *rep;
    enum doca_flow_port_operation_state state;
    uint32_t actions_mem_size;
    uint32_t budget[RESOURCE_KINDS];
};

enum operation_kind { OPERATION_ADD, OPERATION_UPDATE, OPERATION_REMOVE };

/* A queued operation. Pushed ones have taken effect and wait to be reported. */
struct operation {
    struct operation *next;
    struct doca_flow_pipe_entry *entry;
    enum operation_kind kind;
};

struct queue {
    struct operation *first, **last;
    struct operation *waiting; /* the first that was not pushed yet; all behind it wait too */
    uint32_t wait_count;
};

struct doca_flow_port {
    struct doca_flow_port_cfg cfg;
    uint32_t used[RESOURCE_KINDS];
    struct doca_flow_port *pair;
    struct doca_flow_pipe *pipes; /* list, latest first */
    struct doca_flow_pipe *root[DOMAINS];
    struct queue *queues;
    struct shared_table shared;
    struct netdev *netdev;
    struct doca_flow_model_port_stats stats;
};

/* A forward with its queues copied. */
struct forward {
    bool given;
    struct doca_flow_fwd fwd;
    uint16_t *queues;
    bool target_gone; /* the pipe it went to was destroyed */
};

struct list_element {
    enum doca_flow_ordered_list_element_type type;
    struct action_template actions;
    struct doca_flow_monitor monitor;
    struct doca_flow_nat64_action nat64;
};

struct list {
    struct list_element *elements;
    uint32_t size;
};

struct doca_flow_pipe_cfg {
    struct doca_flow_port *port;
    struct doca_flow_match match, mask;
    bool has_match, has_mask;
    struct action_template *templates;
    size_t template_count;
    struct doca_flow_monitor monitor;
    bool has_monitor;
    struct list *lists;
    size_t list_count;
    char *name;
    enum doca_flow_pipe_type type;
    enum doca_flow_pipe_domain domain;
    bool domain_set, is_root, resizable, miss_counter;
    uint32_t nr_entries;
    uint8_t congestion;
    int excluded_queue; /* -1: none */
    void *user_ctx;
    uint32_t hash_algorithms;
};

/* What an entry counts and limits. */
struct watch {
    bool own_counter, own_meter;
    struct counter counter;
    struct meter meter;
    struct shared_resource *shared_counter, *shared_meter;
    uint32_t aging_sec;
};

struct compiled_element {
    enum doca_flow_ordered_list_element_type type;
    struct action_set actions;
    struct watch watch;
};

/* What an update exchanges as a whole. */
struct effect {
    struct action_set actions;
    struct watch watch;
    struct forward forward;
    bool took_encap, took_decap; /* of the port's budget */
};

struct doca_flow_pipe_entry {
    struct doca_flow_pipe *pipe;
    struct doca_flow_pipe_entry *next, **link; /* list of the pipe */
    struct doca_flow_pipe_entry *chain;        /* of the hash bucket */
    uint16_t queue;
    void *user_ctx;
    enum doca_flow_entry_status status;
    bool active, removing;
    unsigned pending; /* operations in queues */
    unsigned updates; /* so far */
    struct effect effect, *update;
    uint64_t hit_ns;
    bool aged;
    uint8_t *key, *key_mask; /* BASIC: key; LPM: with its mask */
    struct matcher matcher;  /* CONTROL: of its own */
    struct condition condition;
    uint32_t priority; /* CONTROL: 0 first; LPM: unset bits of the mask */
    uint32_t index;    /* HASH, ORDERED_LIST */
    struct compiled_element *elements;
    uint32_t element_count;
};

struct doca_flow_pipe {
    struct doca_flow_pipe_cfg cfg; /* its own copy */
    struct doca_flow_pipe *next;
    struct matcher matcher;
    struct forward forward, miss;
    struct counter miss_counter;
    struct doca_flow_pipe_entry *entries;
    uint32_t entry_count;
    struct doca_flow_pipe_entry **buckets; /* BASIC */
    size_t bucket_count;
    struct doca_flow_pipe_entry **slots; /* HASH, ORDERED_LIST, by index; others sorted by priority */
    size_t slot_count, slot_room;
    bool congested, resized;
    doca_flow_pipe_resize_entry_relocate_cb relocate_cb;
    bool destroying;
};

/* forward.c */
doca_error_t forward_create(const struct doca_flow_fwd *fwd, struct forward *forward);
void forward_clear(struct forward *forward);
bool forward_is_changeable(const struct doca_flow_fwd *fwd);
doca_error_t forward_check(const struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd);
doca_error_t forward_check_miss(const struct doca_flow_fwd *fwd);
/* The pipe's forward with what the entry brings. */
doca_error_t forward_merge(const struct doca_flow_pipe *pipe, const struct doca_flow_fwd *entry,
                           struct forward *forward);

/* watch.c */
doca_error_t watch_create(struct doca_flow_port *port, const struct doca_flow_monitor *pipe,
                          const struct doca_flow_monitor *entry, struct watch *watch);
void watch_clear(struct doca_flow_port *port, struct watch *watch);
/* Counts; colours the packet; true if a meter of the entry's own says red. */
bool watch_packet(struct watch *watch, struct packet *packet);

/* list.c */
doca_error_t list_copy(const struct doca_flow_ordered_list *list, struct list *copy);
void list_clear(struct list *list);
doca_error_t list_compile(struct doca_flow_pipe *pipe, const struct doca_flow_ordered_list *list,
                       struct doca_flow_pipe_entry *entry);
void list_clear_compiled(struct doca_flow_port *port, struct doca_flow_pipe_entry *entry);

/* pipe_cfg.c */
doca_error_t pipe_cfg_copy(const struct doca_flow_pipe_cfg *cfg, struct doca_flow_pipe_cfg *copy);
void pipe_cfg_clear(struct doca_flow_pipe_cfg *cfg);

/* pipe.c: destroys the pipes marked as destroying on all ports. */
void pipes_destroy_marked(void);

/* index.c: how packets find entries. */
doca_error_t index_add(struct doca_flow_pipe *pipe, struct doca_flow_pipe_entry *entry);
void index_remove(struct doca_flow_pipe *pipe, struct doca_flow_pipe_entry *entry);
/* The entry that has the same key or place, preferably one that is not being removed; NULL if there is none. */
const struct doca_flow_pipe_entry *index_holder(const struct doca_flow_pipe *pipe,
                                                const struct doca_flow_pipe_entry *entry);
struct doca_flow_pipe_entry *index_find(struct doca_flow_pipe *pipe, struct packet *packet);

/* effect.c */
doca_error_t effect_create(struct doca_flow_pipe *pipe, uint8_t action_idx, const struct doca_flow_actions *actions,
                           const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                           struct effect *effect);
/* The same for a control entry, which brings its own template. */
doca_error_t effect_create_literal(struct doca_flow_pipe *pipe, const struct action_template *actions,
                                   const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                   struct effect *effect);
void effect_clear(struct doca_flow_port *port, struct effect *effect);
/* Budgets pass from an effect to the one that replaces it: given back, and taken again if that fails. */
void effect_lend(struct doca_flow_port *port, const struct effect *effect);
void effect_reclaim(struct doca_flow_port *port, const struct effect *effect);

/* entry.c */
/* Gives back what the entry holds; it is to be freed then. */
void entry_release(struct doca_flow_pipe_entry *entry);

/* queue.c */
doca_error_t queue_check(struct doca_flow_port *port, uint16_t queue, uint32_t flags, const char *what);
doca_error_t queue_put(struct doca_flow_pipe_entry *entry, uint16_t queue, enum operation_kind kind, bool wait);
/* Drops operations of one entry, or of all entries of a pipe, without reporting them. */
void queue_forget(struct doca_flow_port *port, const struct doca_flow_pipe *pipe,
                  const struct doca_flow_pipe_entry *entry);
void queue_push_all(struct doca_flow_port *port);

/* resize.c */
void resize_watch(struct doca_flow_pipe *pipe);
void resize_finish(struct doca_flow_port *port, uint16_t queue);

/* hash.c */
uint32_t hash_key(const struct matcher *matcher, const uint8_t *key);

/* exec.c: runs a packet from the root of a port on; takes the packet over. */
void run_packet(struct doca_flow_port *port, struct packet *packet, struct doca_flow_model_result *result);

/* port.c */
struct doca_flow_port *port_find(uint16_t id);

/* endpoint.c */
void endpoint_attach_configured(struct doca_flow_port *port);
void endpoint_close(struct doca_flow_port *port);
bool endpoint_send(struct doca_flow_port *port, const uint8_t *frame, size_t length);

#endif
