/* SPDX-License-Identifier: Apache-2.0 */
/* One call that makes a pipe of everything a pipe is made of. */
#ifndef PIPE_H_
#define PIPE_H_

#include "flow.h"

enum { TEMPLATES_MAX = 2 };

struct pipe_spec {
    const char *name;
    enum doca_flow_pipe_type type;
    bool root, egress, counters, miss_counter;
    uint32_t entries;
    const struct doca_flow_match *match, *mask; /* either may be missing */
    struct doca_flow_actions *templates[TEMPLATES_MAX];
    size_t template_count;
    struct doca_flow_ordered_list *list;
    const struct doca_flow_fwd *fwd, *miss;
};

bool pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                 struct fault *fault);

/* Destroys a pipe that nothing points to, with its entries. */
void pipe_discard(struct flow_port *port, struct doca_flow_pipe **pipe);

/* Updates a BASIC pipe's entry; waits first if another update of it is still under way. */
bool update_entry(struct flow_port *port, struct doca_flow_pipe *pipe, uint8_t template,
                  const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry, struct fault *fault,
                  const char *what);

struct doca_flow_fwd fwd_port(uint16_t id);
struct doca_flow_fwd fwd_pipe(struct doca_flow_pipe *pipe);
struct doca_flow_fwd fwd_list(struct doca_flow_pipe *pipe);
struct doca_flow_fwd fwd_drop(void);

/* Writes the address where headers have it, and says which member of the union that is. */
void put_source(struct doca_flow_header_format *header, const struct address *address);
void put_destination(struct doca_flow_header_format *header, const struct address *address);

/* Counts of an entry or of the packets that a pipe has nothing for. */
bool count_entry(struct doca_flow_pipe_entry *entry, uint64_t *packets, uint64_t *bytes);
bool count_misses(struct doca_flow_pipe *pipe, uint64_t *packets);

#endif
