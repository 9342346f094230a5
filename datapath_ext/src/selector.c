/* SPDX-License-Identifier: Apache-2.0 */
#include "selector.h"

#include <doca_bitfield.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

#define SELECT_ADDRESS(NAME) &select_##NAME,
const struct select_ops *const selections[SELECTION_COUNT] = {SELECTIONS(SELECT_ADDRESS)};
#undef SELECT_ADDRESS

struct selector_key selector_key_of(const struct vip *vip)
{
    struct selector_key key = {.select = vip->select, .forward = vip->forward, .slot_count = vip->slot_count};

    vip->select->fill_key(vip, &key);
    return key;
}

bool selector_key_same(const struct selector_key *one, const struct selector_key *other)
{
    return one->select == other->select && one->forward == other->forward && one->family == other->family &&
           one->fields == other->fields && one->slot_count == other->slot_count && one->protocol == other->protocol &&
           (one->numbers == NULL || memcmp(one->numbers, other->numbers, one->slot_count * sizeof(*one->numbers)) == 0);
}

struct doca_flow_header_l4_port *selector_ports(struct doca_flow_match *match, uint8_t protocol)
{
    match->outer.l4_type_ext = protocol == 17 ? DOCA_FLOW_L4_TYPE_EXT_UDP : DOCA_FLOW_L4_TYPE_EXT_TCP;
    return protocol == 17 ? &match->outer.udp.l4_port : &match->outer.tcp.l4_port;
}

static bool create(struct selector *selector, struct flow_port *port, struct doca_flow_pipe *slots,
                   struct fault *fault)
{
    const struct selector_key *key = &selector->key;
    struct doca_flow_match match = {0}, mask = {0};
    struct doca_flow_actions slot = {0};
    struct doca_flow_fwd fwd = fwd_pipe(slots), drop = fwd_drop();
    char name[64];
    struct pipe_spec spec = {.name = name, .entries = key->slot_count, .mask = &mask, .templates = {&slot},
                             .template_count = 1, .fwd = &fwd};

    (void)snprintf(name, sizeof(name), "%s%u-%s", key->select->name, key->slot_count,
                   key->forward->name);
    slot.meta.u32[0] = UINT32_MAX;
    spec.type = key->select->type;
    if (spec.type == DOCA_FLOW_PIPE_BASIC) { /* a hash pipe has an entry for every hash, so there is no miss */
        spec.miss = &drop;
        spec.match = &match;
    }
    key->select->fill_match(key, &match, &mask);
    return pipe_create(port, &spec, &selector->pipe, fault);
}

static bool fill(struct selector *selector, struct flow_port *port, struct fault *fault)
{
    const struct selector_key *key = &selector->key;

    for (uint32_t i = 0; i < key->slot_count; i++) {
        struct doca_flow_actions slot = {.meta = {.u32 = {DOCA_HTOBE32(i)}}};
        struct doca_flow_match match = {0};
        doca_error_t result;

        if (key->select->type == DOCA_FLOW_PIPE_BASIC) {
            key->select->match_slot(key, i, &match);
            result = compat_basic_add(selector->pipe, &match, 0, &slot, port, NULL);
        } else {
            result = compat_hash_add(selector->pipe, i, &slot, port, NULL);
        }
        if (!flow_queued(port, result, fault, "adding an entry that chooses a slot"))
            return false;
    }
    return flow_wait(port, fault);
}

struct selector *selector_get(struct selector **all, struct flow_port *port, const struct vip *vip,
                              struct doca_flow_pipe *slots, struct fault *fault)
{
    struct selector_key key = selector_key_of(vip);
    struct selector *selector;

    for (selector = *all; selector != NULL; selector = selector->next)
        if (selector_key_same(&selector->key, &key)) {
            selector->users++;
            return selector;
        }
    selector = calloc(1, sizeof(*selector));
    if (selector == NULL) {
        (void)fault_set(fault, "no memory for a selector");
        return NULL;
    }
    selector->key = key;
    if (key.numbers != NULL) {
        selector->key.numbers = selector->numbers = calloc(key.slot_count, sizeof(*key.numbers));
        if (selector->numbers == NULL) {
            selector_free(selector);
            (void)fault_set(fault, "no memory for a selector");
            return NULL;
        }
        memcpy(selector->numbers, key.numbers, key.slot_count * sizeof(*key.numbers));
    }
    if (!create(selector, port, slots, fault) || !fill(selector, port, fault)) {
        if (selector->pipe != NULL)
            pipe_discard(port, &selector->pipe);
        selector_free(selector);
        return NULL;
    }
    selector->users = 1;
    selector->next = *all;
    *all = selector;
    return selector;
}

void selector_put(struct selector **all, struct flow_port *port, struct selector *selector)
{
    if (--selector->users > 0)
        return;
    while (*all != selector)
        all = &(*all)->next;
    *all = selector->next;
    pipe_discard(port, &selector->pipe); /* its entries go with it */
    selector_free(selector);
}

void selector_free(struct selector *selector)
{
    free(selector->numbers);
    free(selector);
}
