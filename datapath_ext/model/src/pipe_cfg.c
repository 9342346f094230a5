/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a pipe, before there is one. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

enum { NR_ENTRIES_DEFAULT = 8192 };

static doca_error_t no_cfg(const char *call)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "pipe_cfg_%s without a configuration or a value", call);
}

doca_error_t doca_flow_pipe_cfg_create(struct doca_flow_pipe_cfg **cfg, struct doca_flow_port *port)
{
    if (cfg == NULL || port == NULL)
        return no_cfg("create");
    *cfg = calloc(1, sizeof(**cfg));
    if (*cfg == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a pipe configuration");
    (*cfg)->port = port;
    (*cfg)->nr_entries = NR_ENTRIES_DEFAULT;
    (*cfg)->excluded_queue = -1;
    (*cfg)->hash_algorithms = DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH;
    return DOCA_SUCCESS;
}

static void clear_templates(struct doca_flow_pipe_cfg *cfg)
{
    for (size_t i = 0; i < cfg->template_count; i++)
        template_clear(&cfg->templates[i]);
    free(cfg->templates);
    cfg->templates = NULL;
    cfg->template_count = 0;
}

static void clear_lists(struct doca_flow_pipe_cfg *cfg)
{
    for (size_t i = 0; i < cfg->list_count; i++)
        list_clear(&cfg->lists[i]);
    free(cfg->lists);
    cfg->lists = NULL;
    cfg->list_count = 0;
}

void pipe_cfg_clear(struct doca_flow_pipe_cfg *cfg)
{
    clear_templates(cfg);
    clear_lists(cfg);
    free(cfg->name);
    memset(cfg, 0, sizeof(*cfg));
}

doca_error_t doca_flow_pipe_cfg_destroy(struct doca_flow_pipe_cfg *cfg)
{
    if (cfg == NULL)
        return no_cfg("destroy");
    pipe_cfg_clear(cfg);
    free(cfg);
    return DOCA_SUCCESS;
}

static doca_error_t copy_templates(const struct doca_flow_pipe_cfg *cfg, struct doca_flow_pipe_cfg *copy)
{
    doca_error_t result = DOCA_SUCCESS;

    if (cfg->template_count == 0)
        return DOCA_SUCCESS;
    copy->templates = calloc(cfg->template_count, sizeof(*copy->templates));
    if (copy->templates == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for actions");
    for (size_t i = 0; i < cfg->template_count && result == DOCA_SUCCESS; i++) {
        const struct action_template *from = &cfg->templates[i];
        struct doca_flow_action_descs descs = {.nb_action_desc = (uint8_t)from->desc_count, .desc_array = from->descs};

        result = template_copy(&from->actions, from->has_mask ? &from->mask : NULL, &descs, &copy->templates[i]);
        if (result == DOCA_SUCCESS)
            copy->template_count++;
    }
    return result;
}

static doca_error_t copy_lists(const struct doca_flow_pipe_cfg *cfg, struct doca_flow_pipe_cfg *copy)
{
    if (cfg->list_count == 0)
        return DOCA_SUCCESS;
    copy->lists = calloc(cfg->list_count, sizeof(*copy->lists));
    if (copy->lists == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for ordered lists");
    for (size_t i = 0; i < cfg->list_count; i++) {
        const struct list *from = &cfg->lists[i];
        struct list *to = &copy->lists[i];

        to->elements = calloc(from->size, sizeof(*to->elements));
        copy->list_count++;
        if (to->elements == NULL)
            return refuse(DOCA_ERROR_NO_MEMORY, "no memory for ordered lists");
        for (; to->size < from->size; to->size++) {
            const struct action_template *actions = &from->elements[to->size].actions;
            struct doca_flow_action_descs descs = {.nb_action_desc = (uint8_t)actions->desc_count,
                                                   .desc_array = actions->descs};
            doca_error_t result;

            to->elements[to->size] = from->elements[to->size];
            result = template_copy(&actions->actions, actions->has_mask ? &actions->mask : NULL, &descs,
                                   &to->elements[to->size].actions);
            if (result != DOCA_SUCCESS)
                return result;
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t pipe_cfg_copy(const struct doca_flow_pipe_cfg *cfg, struct doca_flow_pipe_cfg *copy)
{
    doca_error_t result;

    *copy = *cfg;
    copy->templates = NULL;
    copy->lists = NULL;
    copy->template_count = copy->list_count = 0;
    copy->name = strdup(cfg->name != NULL ? cfg->name : "(no name)");
    result = copy->name != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a pipe's name");
    if (result == DOCA_SUCCESS)
        result = copy_templates(cfg, copy);
    if (result == DOCA_SUCCESS)
        result = copy_lists(cfg, copy);
    if (result != DOCA_SUCCESS)
        pipe_cfg_clear(copy);
    return result;
}

doca_error_t doca_flow_pipe_cfg_set_match(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_match *match,
                                          const struct doca_flow_match *match_mask)
{
    if (cfg == NULL || (match == NULL && match_mask == NULL))
        return no_cfg("set_match");
    cfg->has_match = match != NULL;
    cfg->has_mask = match_mask != NULL;
    if (match != NULL)
        cfg->match = *match;
    if (match_mask != NULL)
        cfg->mask = *match_mask;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_actions(struct doca_flow_pipe_cfg *cfg, struct doca_flow_actions *const *actions,
                                            struct doca_flow_actions *const *actions_masks,
                                            struct doca_flow_action_descs *const *action_descs, size_t nr_actions)
{
    doca_error_t result = DOCA_SUCCESS;

    /* Without actions, templates of descriptors alone are meant. */
    if (cfg == NULL || (actions == NULL && action_descs == NULL) || nr_actions == 0)
        return no_cfg("set_actions");
    if (nr_actions > UINT8_MAX + 1U)
        return refuse(DOCA_ERROR_INVALID_VALUE, "%zu action templates; an index has 8 bits", nr_actions);
    clear_templates(cfg);
    cfg->templates = calloc(nr_actions, sizeof(*cfg->templates));
    if (cfg->templates == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for actions");
    for (size_t i = 0; i < nr_actions && result == DOCA_SUCCESS; i++) {
        if (actions != NULL && actions[i] == NULL)
            result = refuse(DOCA_ERROR_INVALID_VALUE, "action template %zu is NULL", i);
        else
            result = template_copy(actions != NULL ? actions[i] : NULL, actions_masks != NULL ? actions_masks[i] : NULL,
                                   action_descs != NULL ? action_descs[i] : NULL, &cfg->templates[i]);
        if (result == DOCA_SUCCESS)
            cfg->template_count++;
    }
    if (result != DOCA_SUCCESS)
        clear_templates(cfg);
    return result;
}

doca_error_t doca_flow_pipe_cfg_set_monitor(struct doca_flow_pipe_cfg *cfg, const struct doca_flow_monitor *monitor)
{
    if (cfg == NULL || monitor == NULL)
        return no_cfg("set_monitor");
    cfg->monitor = *monitor;
    cfg->has_monitor = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_ordered_lists(struct doca_flow_pipe_cfg *cfg,
                                                  struct doca_flow_ordered_list *const *ordered_lists,
                                                  size_t nr_ordered_lists)
{
    doca_error_t result = DOCA_SUCCESS;

    if (cfg == NULL || ordered_lists == NULL || nr_ordered_lists == 0)
        return no_cfg("set_ordered_lists");
    clear_lists(cfg);
    cfg->lists = calloc(nr_ordered_lists, sizeof(*cfg->lists));
    if (cfg->lists == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for ordered lists");
    for (size_t i = 0; i < nr_ordered_lists && result == DOCA_SUCCESS; i++) {
        if (ordered_lists[i] == NULL || ordered_lists[i]->idx != i)
            result = refuse(DOCA_ERROR_INVALID_VALUE, "ordered list %zu is NULL or has another idx", i);
        else
            result = list_copy(ordered_lists[i], &cfg->lists[i]);
        if (result == DOCA_SUCCESS)
            cfg->list_count++;
    }
    if (result != DOCA_SUCCESS)
        clear_lists(cfg);
    return result;
}

doca_error_t doca_flow_pipe_cfg_set_name(struct doca_flow_pipe_cfg *cfg, const char *name)
{
    char *copy;

    if (cfg == NULL || name == NULL)
        return no_cfg("set_name");
    copy = strdup(name);
    if (copy == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a pipe's name");
    free(cfg->name);
    cfg->name = copy;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_label(struct doca_flow_pipe_cfg *cfg, const char *label)
{
    if (cfg == NULL || label == NULL)
        return no_cfg("set_label");
    return DOCA_SUCCESS; /* for tools that watch a running program; the model has none */
}

doca_error_t doca_flow_pipe_cfg_set_type(struct doca_flow_pipe_cfg *cfg, enum doca_flow_pipe_type type)
{
    if (cfg == NULL || (unsigned)type > DOCA_FLOW_PIPE_HASH)
        return no_cfg("set_type");
    cfg->type = type;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_domain(struct doca_flow_pipe_cfg *cfg, enum doca_flow_pipe_domain domain)
{
    if (cfg == NULL || (unsigned)domain > DOCA_FLOW_PIPE_DOMAIN_SECURE_EGRESS)
        return no_cfg("set_domain");
    if (cfg->domain_set)
        return refuse(DOCA_ERROR_ALREADY_EXIST, "pipe_cfg_set_domain a second time");
    cfg->domain = domain;
    cfg->domain_set = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_is_root(struct doca_flow_pipe_cfg *cfg, bool is_root)
{
    if (cfg == NULL)
        return no_cfg("set_is_root");
    cfg->is_root = is_root;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_nr_entries(struct doca_flow_pipe_cfg *cfg, uint32_t nr_entries)
{
    if (cfg == NULL || nr_entries == 0)
        return no_cfg("set_nr_entries");
    cfg->nr_entries = nr_entries;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_is_resizable(struct doca_flow_pipe_cfg *cfg, bool is_resizable)
{
    if (cfg == NULL)
        return no_cfg("set_is_resizable");
    cfg->resizable = is_resizable;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_excluded_queue(struct doca_flow_pipe_cfg *cfg, uint16_t excluded_queue)
{
    if (cfg == NULL || excluded_queue >= model.cfg.queues)
        return no_cfg("set_excluded_queue");
    cfg->excluded_queue = excluded_queue;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_miss_counter(struct doca_flow_pipe_cfg *cfg, bool miss_counter)
{
    if (cfg == NULL)
        return no_cfg("set_miss_counter");
    cfg->miss_counter = miss_counter;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_congestion_level_threshold(struct doca_flow_pipe_cfg *cfg, uint8_t percent)
{
    if (cfg == NULL || percent == 0 || percent > 100)
        return no_cfg("set_congestion_level_threshold");
    cfg->congestion = percent;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_user_ctx(struct doca_flow_pipe_cfg *cfg, void *user_ctx)
{
    if (cfg == NULL)
        return no_cfg("set_user_ctx");
    cfg->user_ctx = user_ctx;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_cfg_set_hash_map_algorithm(struct doca_flow_pipe_cfg *cfg, uint32_t algorithm_flags)
{
    uint32_t known = DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH | DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING;

    if (cfg == NULL || algorithm_flags == 0)
        return no_cfg("set_hash_map_algorithm");
    if (algorithm_flags & ~known)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "hash map algorithms 0x%x; the model has HASH and FLOODING",
                      algorithm_flags);
    cfg->hash_algorithms = algorithm_flags;
    return DOCA_SUCCESS;
}
