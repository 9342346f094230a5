/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes: checked against what hardware is known to take, created, destroyed, queried. */
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "objects.h"

/* A mask of what a longest-prefix pipe looks at: what the match leaves open, and what the mask asks for exactly. */
static doca_error_t create_lpm_matcher(struct doca_flow_pipe *pipe)
{
    struct doca_flow_match key;
    const uint8_t *match = (const uint8_t *)&pipe->cfg.match;

    if (!pipe->cfg.has_mask)
        return matcher_create(MATCH_IMPLICIT, &pipe->cfg.match, NULL, &pipe->matcher);
    key = pipe->cfg.mask;
    for (size_t i = 0; i < sizeof(key) && pipe->cfg.has_match; i++)
        ((uint8_t *)&key)[i] |= match[i];
    return matcher_create(MATCH_KEY, NULL, &key, &pipe->matcher);
}

static doca_error_t create_matcher(struct doca_flow_pipe *pipe)
{
    const struct doca_flow_match *match = pipe->cfg.has_match ? &pipe->cfg.match : NULL;
    const struct doca_flow_match *mask = pipe->cfg.has_mask ? &pipe->cfg.mask : NULL;

    if (match == NULL && mask == NULL)
        return DOCA_SUCCESS;
    if (pipe->cfg.type == DOCA_FLOW_PIPE_LPM)
        return create_lpm_matcher(pipe);
    if (pipe->cfg.type != DOCA_FLOW_PIPE_HASH)
        return matcher_create(mask != NULL ? MATCH_EXPLICIT : MATCH_IMPLICIT, match, mask, &pipe->matcher);
    if (mask == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "hash pipe %s with a match and no mask; the mask's bits are its key",
                      pipe->cfg.name);
    return matcher_create(MATCH_KEY, NULL, mask, &pipe->matcher);
}

static doca_error_t check_root(const struct doca_flow_pipe *pipe)
{
    const struct doca_flow_pipe_cfg *cfg = &pipe->cfg;

    if (!cfg->is_root)
        return DOCA_SUCCESS;
    if (cfg->type == DOCA_FLOW_PIPE_LPM || cfg->type == DOCA_FLOW_PIPE_ORDERED_LIST)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "root pipe %s of type %d; BASIC, CONTROL and HASH can be root",
                      cfg->name, (int)cfg->type);
    if (cfg->port->root[cfg->domain] != NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "second root pipe %s in domain %d; the port has %s", cfg->name,
                      (int)cfg->domain, cfg->port->root[cfg->domain]->cfg.name);
    if (cfg->type == DOCA_FLOW_PIPE_HASH && !model.cfg.switch_mode)
        return unproven("root hash pipe %s in vnf mode", cfg->name);
    return DOCA_SUCCESS;
}

static doca_error_t check_hash(const struct doca_flow_pipe *pipe)
{
    const struct doca_flow_pipe_cfg *cfg = &pipe->cfg;
    bool flooding = cfg->hash_algorithms == DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING;

    if (cfg->type != DOCA_FLOW_PIPE_HASH || flooding)
        return DOCA_SUCCESS;
    if (pipe->matcher.count == 0 && (cfg->hash_algorithms & DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH))
        return refuse(DOCA_ERROR_INVALID_VALUE, "hash pipe %s without a mask to make a key of", cfg->name);
    if ((cfg->nr_entries & (cfg->nr_entries - 1)) != 0)
        return unproven("hash pipe %s of %u entries, which is no power of two", cfg->name, cfg->nr_entries);
    return DOCA_SUCCESS;
}

static doca_error_t check_template(const struct doca_flow_pipe *pipe, const struct action_set *set)
{
    const struct doca_flow_pipe_cfg *cfg = &pipe->cfg;

    if (set->nat64 != DOCA_FLOW_L3_TYPE_NONE && cfg->is_root)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "NAT64 in root pipe %s; hardware has it in other pipes only",
                      cfg->name);
    if ((set->encap || set->decap) && cfg->type == DOCA_FLOW_PIPE_HASH)
        return unproven("encap or decap in hash pipe %s; forward to a BASIC pipe for that", cfg->name);
    if (set->encap && !set->encap_header.is_l2 && model.cfg.switch_mode &&
        cfg->domain == DOCA_FLOW_PIPE_DOMAIN_DEFAULT)
        return unproven("encap with is_l2 false in the default domain of switch mode (pipe %s)", cfg->name);
    return DOCA_SUCCESS;
}

static doca_error_t check_templates(const struct doca_flow_pipe *pipe)
{
    doca_error_t result = DOCA_SUCCESS;

    for (size_t i = 0; i < pipe->cfg.template_count && result == DOCA_SUCCESS; i++) {
        struct action_set set;

        result = actions_compile(&pipe->cfg.templates[i], COMPILE_SHAPE, NULL, pipe->cfg.port, &set);
        if (result == DOCA_SUCCESS)
            result = check_template(pipe, &set);
        actions_clear(&set);
    }
    for (size_t l = 0; l < pipe->cfg.list_count; l++)
        for (uint32_t i = 0; i < pipe->cfg.lists[l].size && result == DOCA_SUCCESS; i++) {
            struct action_set set;

            if (pipe->cfg.lists[l].elements[i].type != DOCA_FLOW_ORDERED_LIST_ELEMENT_ACTIONS)
                continue;
            result = actions_compile(&pipe->cfg.lists[l].elements[i].actions, COMPILE_SHAPE, NULL, pipe->cfg.port, &set);
            actions_clear(&set);
        }
    return result;
}

static doca_error_t check_kind(const struct doca_flow_pipe *pipe)
{
    const struct doca_flow_pipe_cfg *cfg = &pipe->cfg;

    if (cfg->type == DOCA_FLOW_PIPE_ACL)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "pipe %s of type ACL; the model has no access lists", cfg->name);
    if (cfg->type == DOCA_FLOW_PIPE_CT)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "pipe %s of type CT; the model has no connection tracking", cfg->name);
    if (cfg->domain == DOCA_FLOW_PIPE_DOMAIN_SECURE_INGRESS || cfg->domain == DOCA_FLOW_PIPE_DOMAIN_SECURE_EGRESS)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "pipe %s in a secure domain; the model has no cryptography",
                      cfg->name);
    if ((cfg->type == DOCA_FLOW_PIPE_ORDERED_LIST) != (cfg->list_count > 0))
        return refuse(DOCA_ERROR_INVALID_VALUE, "pipe %s: ordered lists go with type ORDERED_LIST", cfg->name);
    return DOCA_SUCCESS;
}

static doca_error_t check_miss(const struct doca_flow_pipe *pipe, const struct doca_flow_fwd *fwd_miss)
{
    doca_error_t result = forward_check_miss(fwd_miss);

    if (result == DOCA_SUCCESS && fwd_miss != NULL)
        result = forward_check(&pipe->cfg, fwd_miss);
    if (result == DOCA_SUCCESS && fwd_miss != NULL && pipe->cfg.type == DOCA_FLOW_PIPE_HASH &&
        (pipe->cfg.hash_algorithms & DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING) == 0)
        result = unproven("fwd_miss of hash pipe %s, which does not flood", pipe->cfg.name);
    return result;
}

static doca_error_t fill(struct doca_flow_pipe *pipe, const struct doca_flow_fwd *fwd,
                         const struct doca_flow_fwd *fwd_miss)
{
    doca_error_t result = check_kind(pipe);

    if (result == DOCA_SUCCESS)
        result = create_matcher(pipe);
    if (result == DOCA_SUCCESS)
        result = check_root(pipe);
    if (result == DOCA_SUCCESS)
        result = check_hash(pipe);
    if (result == DOCA_SUCCESS)
        result = check_templates(pipe);
    if (result == DOCA_SUCCESS && fwd != NULL)
        result = forward_check(&pipe->cfg, fwd);
    if (result == DOCA_SUCCESS)
        result = check_miss(pipe, fwd_miss);
    if (result == DOCA_SUCCESS)
        result = forward_create(fwd, &pipe->forward);
    if (result == DOCA_SUCCESS)
        result = forward_create(fwd_miss, &pipe->miss);
    if (result == DOCA_SUCCESS && pipe->cfg.miss_counter) {
        result = budget_take(pipe->cfg.port, DOCA_FLOW_RESOURCE_COUNTER);
        pipe->cfg.miss_counter = result == DOCA_SUCCESS;
    }
    return result;
}

static void release(struct doca_flow_pipe *pipe)
{
    struct doca_flow_port *port = pipe->cfg.port;

    if (port != NULL) {
        queue_forget(port, pipe, NULL);
        if (pipe->cfg.miss_counter)
            budget_give(port, DOCA_FLOW_RESOURCE_COUNTER);
    }
    while (pipe->entries != NULL) {
        struct doca_flow_pipe_entry *entry = pipe->entries;

        pipe->entries = entry->next;
        if (faults_call_back_on_destroy() && model.cfg.entry_cb != NULL)
            model.cfg.entry_cb(entry, entry->queue, DOCA_FLOW_ENTRY_STATUS_SUCCESS, DOCA_FLOW_ENTRY_OP_DEL,
                               entry->user_ctx);
        entry_release(entry);
        free(entry);
    }
    matcher_clear(&pipe->matcher);
    forward_clear(&pipe->forward);
    forward_clear(&pipe->miss);
    free(pipe->buckets);
    free(pipe->slots);
    pipe_cfg_clear(&pipe->cfg);
    free(pipe);
}

doca_error_t doca_flow_pipe_create(const struct doca_flow_pipe_cfg *cfg, const struct doca_flow_fwd *fwd,
                                   const struct doca_flow_fwd *fwd_miss, struct doca_flow_pipe **pipe)
{
    struct doca_flow_pipe *new;
    doca_error_t result;

    if (cfg == NULL || pipe == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "pipe_create without a configuration or a place for the pipe");
    model_lock();
    new = calloc(1, sizeof(*new));
    if (new == NULL) {
        result = refuse(DOCA_ERROR_NO_MEMORY, "no memory for a pipe");
        goto unlock;
    }
    result = pipe_cfg_copy(cfg, &new->cfg);
    if (result != DOCA_SUCCESS)
        goto release;
    result = fill(new, fwd, fwd_miss);
    if (result != DOCA_SUCCESS)
        goto release;
    new->next = cfg->port->pipes;
    cfg->port->pipes = new;
    if (new->cfg.is_root)
        cfg->port->root[new->cfg.domain] = new;
    *pipe = new;
    goto unlock;

release:
    new->cfg.miss_counter = false; /* its counter is taken last, so it was not */
    release(new);
unlock:
    model_unlock();
    return result;
}

static void drop_if_destroying(struct forward *forward)
{
    const struct doca_flow_fwd *fwd = &forward->fwd;

    if (!forward->given)
        return;
    if ((fwd->type == DOCA_FLOW_FWD_PIPE && fwd->next_pipe != NULL && fwd->next_pipe->destroying) ||
        (fwd->type == DOCA_FLOW_FWD_ORDERED_LIST_PIPE && fwd->ordered_list_pipe.pipe->destroying) ||
        (fwd->type == DOCA_FLOW_FWD_HASH_PIPE && fwd->hash_pipe.pipe != NULL && fwd->hash_pipe.pipe->destroying)) {
        forward->fwd.type = DOCA_FLOW_FWD_DROP;
        forward->target_gone = true;
    }
}

void pipes_destroy_marked(void)
{
    for (unsigned i = 0; i < PORTS_MAX; i++) {
        struct doca_flow_port *port = model.ports[i];

        for (struct doca_flow_pipe *pipe = port != NULL ? port->pipes : NULL; pipe != NULL; pipe = pipe->next) {
            drop_if_destroying(&pipe->forward);
            drop_if_destroying(&pipe->miss);
            for (struct doca_flow_pipe_entry *entry = pipe->entries; entry != NULL; entry = entry->next) {
                drop_if_destroying(&entry->effect.forward);
                if (entry->update != NULL)
                    drop_if_destroying(&entry->update->forward);
            }
        }
    }
    for (unsigned i = 0; i < PORTS_MAX; i++) {
        struct doca_flow_port *port = model.ports[i];
        struct doca_flow_pipe **link = port != NULL ? &port->pipes : NULL;

        while (link != NULL && *link != NULL) {
            struct doca_flow_pipe *pipe = *link;

            if (!pipe->destroying) {
                link = &pipe->next;
                continue;
            }
            *link = pipe->next;
            for (unsigned domain = 0; domain < DOMAINS; domain++)
                if (port->root[domain] == pipe)
                    port->root[domain] = NULL;
            release(pipe);
        }
    }
}

void doca_flow_pipe_destroy(struct doca_flow_pipe *pipe)
{
    if (pipe == NULL)
        return;
    model_lock();
    pipe->destroying = true;
    pipes_destroy_marked();
    model_unlock();
}

doca_error_t doca_flow_pipe_update_miss(struct doca_flow_pipe *pipe, const struct doca_flow_fwd *fwd_miss)
{
    struct forward forward = {0};
    doca_error_t result;

    if (pipe == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "pipe_update_miss without a pipe");
    model_lock();
    result = check_miss(pipe, fwd_miss);
    if (result == DOCA_SUCCESS)
        result = forward_create(fwd_miss, &forward);
    if (result == DOCA_SUCCESS) {
        forward_clear(&pipe->miss);
        pipe->miss = forward;
    }
    model_unlock();
    return result;
}

doca_error_t doca_flow_resource_query_pipe_miss(struct doca_flow_pipe *pipe, struct doca_flow_resource_query *query)
{
    doca_error_t result = DOCA_SUCCESS;

    if (pipe == NULL || query == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "resource_query_pipe_miss without a pipe or a place for the result");
    model_lock();
    if (pipe->cfg.miss_counter)
        counter_query(&pipe->miss_counter, query);
    else
        result = refuse(DOCA_ERROR_INVALID_VALUE, "pipe %s has no miss counter", pipe->cfg.name);
    model_unlock();
    return result;
}

void doca_flow_pipe_dump(struct doca_flow_pipe *pipe, FILE *file)
{
    if (pipe == NULL || file == NULL)
        return;
    model_lock();
    (void)fprintf(file, "pipe %s: type %d, domain %d, %s, %u of %u entries, key of %zu bytes, %zu action templates\n",
                  pipe->cfg.name, (int)pipe->cfg.type, (int)pipe->cfg.domain, pipe->cfg.is_root ? "root" : "not root",
                  pipe->entry_count, pipe->cfg.nr_entries, pipe->matcher.size, pipe->cfg.template_count);
    model_unlock();
}
