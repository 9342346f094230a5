/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <stdlib.h>

static struct doca_flow_model_faults faults;
static bool known; /* from the environment, or set by a call */
static uint64_t random_state = 1;

static uint32_t number(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

static const struct doca_flow_model_faults *current(void)
{
    if (!known)
        faults = (struct doca_flow_model_faults){
            .updates_most = number("DOCA_FLOW_MODEL_UPDATES_MOST"),
            .remove_one_in = number("DOCA_FLOW_MODEL_REMOVE_ONE_IN"),
            .full_one_in = number("DOCA_FLOW_MODEL_FULL_ONE_IN"),
            .full_at_size = number("DOCA_FLOW_MODEL_FULL_AT_SIZE") != 0,
            .destroy_callbacks = number("DOCA_FLOW_MODEL_DESTROY_CALLBACKS") != 0,
        };
    known = true;
    return &faults;
}

void doca_flow_model_set_faults(const struct doca_flow_model_faults *wanted)
{
    model_lock();
    faults = wanted != NULL ? *wanted : (struct doca_flow_model_faults){0};
    known = true;
    model_unlock();
}

void faults_seed(uint64_t seed)
{
    random_state = seed != 0 ? seed : 1;
}

/* Numbers of its own: what packets draw is the same with faults and without. */
static bool one_in(uint32_t many)
{
    if (many == 0)
        return false;
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1dULL >> 32) % many == 0;
}

static bool is_full(const struct doca_flow_pipe *pipe)
{
    return current()->full_at_size && pipe->entry_count >= pipe->cfg.nr_entries;
}

doca_error_t faults_check_add(const struct doca_flow_pipe *pipe)
{
    if (is_full(pipe))
        return refuse(DOCA_ERROR_FULL, "pipe %s is full: %u entries", pipe->cfg.name, pipe->cfg.nr_entries);
    if (one_in(current()->full_one_in))
        return refuse(DOCA_ERROR_FULL, "fault: pipe %s finds no place for an entry, with %u of %u", pipe->cfg.name,
                      pipe->entry_count, pipe->cfg.nr_entries);
    return DOCA_SUCCESS;
}

doca_error_t faults_check_update(const struct doca_flow_pipe_entry *entry)
{
    const struct doca_flow_pipe *pipe = entry->pipe;

    if (current()->updates_most != 0 && entry->updates >= current()->updates_most)
        return refuse(DOCA_ERROR_IN_USE, "fault: update %u of an entry of pipe %s", entry->updates + 1, pipe->cfg.name);
    if (is_full(pipe))
        return refuse(DOCA_ERROR_FULL, "fault: an update in pipe %s, which has no free entry among %u", pipe->cfg.name,
                      pipe->cfg.nr_entries);
    return DOCA_SUCCESS;
}

doca_error_t faults_check_remove(const struct doca_flow_pipe_entry *entry)
{
    if (one_in(current()->remove_one_in))
        return refuse(DOCA_ERROR_UNKNOWN, "fault: an entry of pipe %s is not removed", entry->pipe->cfg.name);
    return DOCA_SUCCESS;
}

bool faults_call_back_on_destroy(void)
{
    return current()->destroy_callbacks;
}
