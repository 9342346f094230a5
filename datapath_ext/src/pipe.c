/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe.h"

#include <string.h>

#include "compat.h"

static doca_error_t configure(struct doca_flow_pipe_cfg *cfg, const struct pipe_spec *spec)
{
    const struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    doca_error_t result = doca_flow_pipe_cfg_set_name(cfg, spec->name);

    if (result == DOCA_SUCCESS)
        result = doca_flow_pipe_cfg_set_type(cfg, spec->type);
    if (result == DOCA_SUCCESS)
        result = doca_flow_pipe_cfg_set_is_root(cfg, spec->root);
    if (result == DOCA_SUCCESS && spec->egress)
        result = doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS);
    if (result == DOCA_SUCCESS)
        result = doca_flow_pipe_cfg_set_nr_entries(cfg, spec->entries);
    if (result == DOCA_SUCCESS && (spec->match != NULL || spec->mask != NULL))
        result = doca_flow_pipe_cfg_set_match(cfg, spec->match, spec->mask);
    if (result == DOCA_SUCCESS && spec->template_count > 0)
        result = doca_flow_pipe_cfg_set_actions(cfg, spec->templates, NULL, NULL, spec->template_count);
    if (result == DOCA_SUCCESS && spec->list != NULL)
        result = doca_flow_pipe_cfg_set_ordered_lists(cfg, &spec->list, 1);
    if (result == DOCA_SUCCESS && spec->counters)
        result = doca_flow_pipe_cfg_set_monitor(cfg, &monitor);
    if (result == DOCA_SUCCESS && spec->miss_counter)
        result = doca_flow_pipe_cfg_set_miss_counter(cfg, true);
    return result;
}

bool pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                 struct fault *fault)
{
    struct doca_flow_pipe_cfg *cfg = NULL;
    doca_error_t result = doca_flow_pipe_cfg_create(&cfg, port->port);

    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "configuring pipe %s", spec->name);
    result = configure(cfg, spec);
    if (result == DOCA_SUCCESS)
        result = doca_flow_pipe_create(cfg, spec->fwd, spec->miss, pipe);
    (void)doca_flow_pipe_cfg_destroy(cfg);
    return result == DOCA_SUCCESS || fault_doca(fault, result, "creating pipe %s on port %s", spec->name, port->name);
}

void pipe_discard(struct flow_port *port, struct doca_flow_pipe **pipe)
{
    flow_flush(port);
    doca_flow_pipe_destroy(*pipe);
    *pipe = NULL;
}

bool update_entry(struct flow_port *port, struct doca_flow_pipe *pipe, uint8_t template,
                  const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry, struct fault *fault,
                  const char *what)
{
    doca_error_t result = compat_basic_update(pipe, template, actions, entry);

    if (result == DOCA_ERROR_AGAIN) {
        if (!flow_wait(port, fault))
            return false;
        result = compat_basic_update(pipe, template, actions, entry);
    }
    return flow_queued(port, result, fault, what);
}

struct doca_flow_fwd fwd_port(uint16_t id)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_PORT, .port_id = id};
}

struct doca_flow_fwd fwd_pipe(struct doca_flow_pipe *pipe)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_PIPE, .next_pipe = pipe};
}

struct doca_flow_fwd fwd_list(struct doca_flow_pipe *pipe)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_ORDERED_LIST_PIPE, .ordered_list_pipe = {.pipe = pipe}};
}

struct doca_flow_fwd fwd_drop(void)
{
    return (struct doca_flow_fwd){.type = DOCA_FLOW_FWD_DROP};
}

void put_source(struct doca_flow_header_format *header, const struct address *address)
{
    header->l3_type = address->family == 4 ? DOCA_FLOW_L3_TYPE_IP4 : DOCA_FLOW_L3_TYPE_IP6;
    if (address->family == 4)
        memcpy(&header->ip4.src_ip, address->bytes, 4);
    else
        memcpy(header->ip6.src_ip, address->bytes, 16);
}

void put_destination(struct doca_flow_header_format *header, const struct address *address)
{
    header->l3_type = address->family == 4 ? DOCA_FLOW_L3_TYPE_IP4 : DOCA_FLOW_L3_TYPE_IP6;
    if (address->family == 4)
        memcpy(&header->ip4.dst_ip, address->bytes, 4);
    else
        memcpy(header->ip6.dst_ip, address->bytes, 16);
}

bool count_entry(struct doca_flow_pipe_entry *entry, uint64_t *packets, uint64_t *bytes)
{
    struct doca_flow_resource_query query = {0};

    if (doca_flow_resource_query_entry(entry, &query) != DOCA_SUCCESS)
        return false;
    *packets = query.counter.total_pkts;
    *bytes = query.counter.total_bytes;
    return true;
}

bool count_misses(struct doca_flow_pipe *pipe, uint64_t *packets)
{
    struct doca_flow_resource_query query = {0};

    if (doca_flow_resource_query_pipe_miss(pipe, &query) != DOCA_SUCCESS)
        return false;
    *packets = query.counter.total_pkts;
    return true;
}
