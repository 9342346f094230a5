/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a pipe by their match: exact, longest prefix, or with masks and priorities. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

enum { BUCKETS_FIRST = 64 };

static bool by_index(const struct doca_flow_pipe *pipe)
{
    return pipe->cfg.type == DOCA_FLOW_PIPE_HASH || pipe->cfg.type == DOCA_FLOW_PIPE_ORDERED_LIST;
}

/* FNV-1a */
static size_t bucket_of(const struct doca_flow_pipe *pipe, const uint8_t *key)
{
    uint64_t hash = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < pipe->matcher.size; i++)
        hash = (hash ^ key[i]) * 0x100000001b3ULL;
    return (size_t)(hash ^ hash >> 32) & (pipe->bucket_count - 1);
}

static doca_error_t grow_buckets(struct doca_flow_pipe *pipe)
{
    size_t count = pipe->bucket_count == 0 ? BUCKETS_FIRST : pipe->bucket_count * 2, old_count = pipe->bucket_count;
    struct doca_flow_pipe_entry **buckets, **old = pipe->buckets;

    if (pipe->bucket_count > pipe->entry_count)
        return DOCA_SUCCESS;
    buckets = calloc(count, sizeof(struct doca_flow_pipe_entry *));
    if (buckets == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an index");
    pipe->buckets = buckets;
    pipe->bucket_count = count;
    for (size_t i = 0; i < old_count; i++)
        while (old[i] != NULL) {
            struct doca_flow_pipe_entry *entry = old[i];
            size_t bucket = bucket_of(pipe, entry->key);

            old[i] = entry->chain;
            entry->chain = buckets[bucket];
            buckets[bucket] = entry;
        }
    free(old);
    return DOCA_SUCCESS;
}

static doca_error_t grow_slots(struct doca_flow_pipe *pipe, size_t wanted)
{
    size_t room = pipe->slot_room == 0 ? 16 : pipe->slot_room;
    struct doca_flow_pipe_entry **slots;

    if (wanted <= pipe->slot_room)
        return DOCA_SUCCESS;
    while (room < wanted)
        room *= 2;
    slots = realloc(pipe->slots, room * sizeof(struct doca_flow_pipe_entry *));
    if (slots == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an index");
    memset(slots + pipe->slot_room, 0, (room - pipe->slot_room) * sizeof(struct doca_flow_pipe_entry *));
    pipe->slots = slots;
    pipe->slot_room = room;
    return DOCA_SUCCESS;
}

doca_error_t index_add(struct doca_flow_pipe *pipe, struct doca_flow_pipe_entry *entry)
{
    doca_error_t result;
    size_t at;

    if (pipe->cfg.type == DOCA_FLOW_PIPE_BASIC) {
        result = grow_buckets(pipe);
        if (result != DOCA_SUCCESS)
            return result;
        at = bucket_of(pipe, entry->key);
        entry->chain = pipe->buckets[at];
        pipe->buckets[at] = entry;
        return DOCA_SUCCESS;
    }
    result = grow_slots(pipe, by_index(pipe) ? (size_t)entry->index + 1 : pipe->slot_count + 1);
    if (result != DOCA_SUCCESS)
        return result;
    if (by_index(pipe)) {
        pipe->slots[entry->index] = entry;
        if (pipe->slot_count <= entry->index)
            pipe->slot_count = (size_t)entry->index + 1;
        return DOCA_SUCCESS;
    }
    /* Sorted by priority, equals in the order of their coming. */
    for (at = pipe->slot_count; at > 0 && pipe->slots[at - 1]->priority > entry->priority; at--)
        pipe->slots[at] = pipe->slots[at - 1];
    pipe->slots[at] = entry;
    pipe->slot_count++;
    return DOCA_SUCCESS;
}

void index_remove(struct doca_flow_pipe *pipe, struct doca_flow_pipe_entry *entry)
{
    if (pipe->cfg.type == DOCA_FLOW_PIPE_BASIC) {
        struct doca_flow_pipe_entry **link;

        if (pipe->bucket_count == 0)
            return;
        link = &pipe->buckets[bucket_of(pipe, entry->key)];
        while (*link != NULL && *link != entry)
            link = &(*link)->chain;
        if (*link == entry)
            *link = entry->chain;
        return;
    }
    for (size_t i = 0; i < pipe->slot_count; i++) {
        if (pipe->slots[i] != entry)
            continue;
        if (by_index(pipe)) {
            pipe->slots[i] = NULL;
            return;
        }
        pipe->slot_count--;
        memmove(&pipe->slots[i], &pipe->slots[i + 1], (pipe->slot_count - i) * sizeof(struct doca_flow_pipe_entry *));
        return;
    }
}

const struct doca_flow_pipe_entry *index_holder(const struct doca_flow_pipe *pipe,
                                                const struct doca_flow_pipe_entry *entry)
{
    const struct doca_flow_pipe_entry *holder = NULL, *other;

    if (by_index(pipe))
        return entry->index < pipe->slot_count ? pipe->slots[entry->index] : NULL;
    if (pipe->cfg.type != DOCA_FLOW_PIPE_BASIC || pipe->bucket_count == 0)
        return NULL;
    for (other = pipe->buckets[bucket_of(pipe, entry->key)]; other != NULL; other = other->chain)
        if (memcmp(other->key, entry->key, pipe->matcher.size) == 0 && (holder == NULL || !other->removing))
            holder = other;
    return holder;
}

static struct doca_flow_pipe_entry *find_basic(struct doca_flow_pipe *pipe, const struct packet *packet)
{
    uint8_t key[KEY_MAX];

    if (pipe->bucket_count == 0 || !matcher_packet_key(&pipe->matcher, packet, key))
        return NULL;
    for (struct doca_flow_pipe_entry *entry = pipe->buckets[bucket_of(pipe, key)]; entry != NULL; entry = entry->chain)
        if (entry->active && memcmp(entry->key, key, pipe->matcher.size) == 0)
            return entry;
    return NULL;
}

static struct doca_flow_pipe_entry *find_lpm(struct doca_flow_pipe *pipe, const struct packet *packet)
{
    uint8_t key[KEY_MAX];

    if (!matcher_packet_key(&pipe->matcher, packet, key))
        return NULL;
    for (size_t i = 0; i < pipe->slot_count; i++) {
        struct doca_flow_pipe_entry *entry = pipe->slots[i];

        if (entry->active && matcher_hits(&pipe->matcher, entry->key, entry->key_mask, key))
            return entry;
    }
    return NULL;
}

/* Entries that bring their own match: all of it is constant. */
static struct doca_flow_pipe_entry *find_masked(struct doca_flow_pipe *pipe, const struct packet *packet)
{
    if (!matcher_constants_hold(&pipe->matcher, packet))
        return NULL;
    for (size_t i = 0; i < pipe->slot_count; i++) {
        struct doca_flow_pipe_entry *entry = pipe->slots[i];

        if (entry->active && matcher_constants_hold(&entry->matcher, packet) &&
            (!entry->condition.used || condition_holds(&entry->condition, packet)))
            return entry;
    }
    return NULL;
}

/* HASH and ORDERED_LIST pipes are entered by index, which exec.c works out. */
struct doca_flow_pipe_entry *index_find(struct doca_flow_pipe *pipe, struct packet *packet)
{
    switch (pipe->cfg.type) {
    case DOCA_FLOW_PIPE_BASIC:
        return find_basic(pipe, packet);
    case DOCA_FLOW_PIPE_LPM:
        return find_lpm(pipe, packet);
    case DOCA_FLOW_PIPE_CONTROL:
        return find_masked(pipe, packet);
    case DOCA_FLOW_PIPE_ACL:
    case DOCA_FLOW_PIPE_CT:
    case DOCA_FLOW_PIPE_HASH:
    case DOCA_FLOW_PIPE_ORDERED_LIST:
    default:
        return NULL;
    }
}
