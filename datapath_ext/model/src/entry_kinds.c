/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that add and update entries, one per type of pipe. */
#include <stdlib.h>
#include <string.h>

#include "entry.h"

static doca_error_t no_pipe(void)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "add_entry without a pipe");
}

static doca_error_t alloc_key(const struct doca_flow_pipe *pipe, uint8_t **key)
{
    *key = calloc(1, pipe->matcher.size + 1);
    return *key != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a match");
}

doca_error_t doca_flow_pipe_basic_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe,
                                            const struct doca_flow_match *match, uint8_t action_idx,
                                            const struct doca_flow_actions *actions,
                                            const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                            uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_pipe_entry *new;
    doca_error_t result;

    if (pipe == NULL)
        return no_pipe();
    model_lock();
    result = entry_begin(pipe, DOCA_FLOW_PIPE_BASIC, pipe_queue, flags, usr_ctx, &new);
    if (result == DOCA_SUCCESS)
        result = alloc_key(pipe, &new->key);
    if (result == DOCA_SUCCESS) {
        matcher_entry_key(&pipe->matcher, match, new->key);
        result = effect_create(pipe, action_idx, actions, monitor, fwd, &new->effect);
    }
    result = entry_end(new, pipe_queue, flags, result, entry);
    model_unlock();
    return result;
}

doca_error_t doca_flow_pipe_basic_update_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint8_t action_idx,
                                               const struct doca_flow_actions *actions,
                                               const struct doca_flow_monitor *monitor,
                                               const struct doca_flow_fwd *fwd, uint32_t flags,
                                               struct doca_flow_pipe_entry *entry)
{
    return entry_update(DOCA_FLOW_PIPE_BASIC, pipe_queue, pipe, action_idx, actions, monitor, fwd, flags, entry);
}

/* Two entries of one match are not supported: public text names the update call instead, and there is none for control
 * pipes. Conditions are not compared: entries that have one are no duplicates. */
static doca_error_t check_control_match(const struct doca_flow_pipe *pipe, const struct doca_flow_pipe_entry *new)
{
    for (const struct doca_flow_pipe_entry *entry = pipe->entries; entry != NULL; entry = entry->next)
        if (!entry->removing && !entry->condition.used && !new->condition.used &&
            matcher_same(&entry->matcher, &new->matcher))
            return unproven("two entries of one match in control pipe %s, with priorities %u and %u", pipe->cfg.name,
                            entry->priority, new->priority);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_control_add_entry(
    uint16_t pipe_queue, struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
    const struct doca_flow_match *match_mask, const struct doca_flow_match_condition *condition,
    const struct doca_flow_actions *actions, const struct doca_flow_actions *actions_mask,
    const struct doca_flow_action_descs *action_descs, const struct doca_flow_monitor *monitor, uint32_t priority,
    const struct doca_flow_fwd *fwd, void *usr_ctx, struct doca_flow_pipe_entry **entry)
{
    struct action_template template = {0};
    struct doca_flow_pipe_entry *new;
    doca_error_t result;

    if (pipe == NULL)
        return no_pipe();
    model_lock();
    result = entry_begin(pipe, DOCA_FLOW_PIPE_CONTROL, pipe_queue, 0, usr_ctx, &new);
    if (result == DOCA_SUCCESS && priority > 7)
        result = unproven("control entry with priority %u; documents speak of 0 to 7", priority);
    if (result == DOCA_SUCCESS && match_mask == NULL && match != NULL && condition == NULL)
        result = matcher_create(MATCH_LITERAL, match, NULL, &new->matcher);
    else if (result == DOCA_SUCCESS && match_mask != NULL)
        result = matcher_create(MATCH_LITERAL, match, match_mask, &new->matcher);
    if (result == DOCA_SUCCESS)
        result = condition_create(condition, match, &new->condition);
    if (result == DOCA_SUCCESS)
        result = template_copy(actions, actions_mask, action_descs, &template);
    if (result == DOCA_SUCCESS) {
        new->priority = priority;
        result = check_control_match(pipe, new);
    }
    if (result == DOCA_SUCCESS)
        result = effect_create_literal(pipe, &template, monitor, fwd, &new->effect);
    result = entry_end(new, pipe_queue, 0, result, entry);
    template_clear(&template);
    model_unlock();
    return result;
}

doca_error_t doca_flow_pipe_hash_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint32_t entry_index,
                                           uint8_t action_idx, const struct doca_flow_actions *actions,
                                           const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                           uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_pipe_entry *new;
    doca_error_t result;

    if (pipe == NULL)
        return no_pipe();
    model_lock();
    result = entry_begin(pipe, DOCA_FLOW_PIPE_HASH, pipe_queue, flags, usr_ctx, &new);
    if (result == DOCA_SUCCESS && entry_index >= pipe->cfg.nr_entries)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "index %u in pipe %s of %u entries", entry_index, pipe->cfg.name,
                        pipe->cfg.nr_entries);
    if (result == DOCA_SUCCESS) {
        new->index = entry_index;
        result = effect_create(pipe, action_idx, actions, monitor, fwd, &new->effect);
    }
    result = entry_end(new, pipe_queue, flags, result, entry);
    model_unlock();
    return result;
}

/* The field with the prefix is the one that the pipe leaves open; all others match exactly. */
static doca_error_t fill_lpm(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                             const struct doca_flow_match *mask, struct doca_flow_pipe_entry *entry)
{
    doca_error_t result = alloc_key(pipe, &entry->key);

    if (result == DOCA_SUCCESS)
        result = alloc_key(pipe, &entry->key_mask);
    if (result != DOCA_SUCCESS)
        return result;
    matcher_entry_key(&pipe->matcher, match, entry->key);
    memcpy(entry->key_mask, pipe->matcher.mask, pipe->matcher.size);
    for (size_t i = 0; i < pipe->matcher.count; i++) {
        const struct match_part *part = &pipe->matcher.parts[i];
        size_t at = section_in_match(part->place.section) + part->place.field->offset;

        if (mask == NULL || !pipe->cfg.has_match || part->constant ||
            !field_all_ones(part->place.field, (const uint8_t *)&pipe->cfg.match + at))
            continue;
        for (size_t j = 0; j < part->place.field->size; j++) {
            entry->key_mask[part->at + j] = ((const uint8_t *)mask)[at + j];
            entry->priority += 8 - (uint32_t)__builtin_popcount(((const uint8_t *)mask)[at + j]);
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_pipe_lpm_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe,
                                          const struct doca_flow_match *match,
                                          const struct doca_flow_match *match_mask, uint8_t action_idx,
                                          const struct doca_flow_actions *actions,
                                          const struct doca_flow_monitor *monitor, const struct doca_flow_fwd *fwd,
                                          uint32_t flags, void *usr_ctx, struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_pipe_entry *new;
    doca_error_t result;

    if (pipe == NULL)
        return no_pipe();
    model_lock();
    result = entry_begin(pipe, DOCA_FLOW_PIPE_LPM, pipe_queue, flags, usr_ctx, &new);
    if (result == DOCA_SUCCESS)
        result = fill_lpm(pipe, match, match_mask, new);
    if (result == DOCA_SUCCESS)
        result = effect_create(pipe, action_idx, actions, monitor, fwd, &new->effect);
    result = entry_end(new, pipe_queue, flags, result, entry);
    model_unlock();
    return result;
}

doca_error_t doca_flow_pipe_ordered_list_add_entry(uint16_t pipe_queue, struct doca_flow_pipe *pipe, uint32_t idx,
                                                   const struct doca_flow_ordered_list *ordered_list,
                                                   const struct doca_flow_fwd *fwd, uint32_t flags, void *usr_ctx,
                                                   struct doca_flow_pipe_entry **entry)
{
    struct doca_flow_pipe_entry *new;
    doca_error_t result;

    if (pipe == NULL)
        return no_pipe();
    model_lock();
    result = entry_begin(pipe, DOCA_FLOW_PIPE_ORDERED_LIST, pipe_queue, flags, usr_ctx, &new);
    if (result == DOCA_SUCCESS && idx >= pipe->cfg.nr_entries)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "index %u in pipe %s of %u entries", idx, pipe->cfg.name,
                        pipe->cfg.nr_entries);
    if (result == DOCA_SUCCESS) {
        new->index = idx;
        result = list_compile(pipe, ordered_list, new);
    }
    if (result == DOCA_SUCCESS)
        result = forward_merge(pipe, fwd, &new->effect.forward);
    result = entry_end(new, pipe_queue, flags, result, entry);
    model_unlock();
    return result;
}
