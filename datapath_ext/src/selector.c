#include "selector.h"

#include <doca_bitfield.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

struct selector_key selector_key_of(const struct vip *vip)
{
    struct selector_key key = {.select = vip->select, .forward = vip->forward, .slot_count = vip->slot_count};

    switch (vip->select) {
    case SELECT_SLOTS:
        key.protocol = vip->protocol;
        break;
    case SELECT_CLIENT:
        key.fields = vip->hash_fields;
        if (vip->hash_fields & (HASH_SRC_IP | HASH_DST_IP))
            key.family = vip->address.family;
        if (vip->hash_fields & (HASH_SRC_PORT | HASH_DST_PORT))
            key.protocol = vip->protocol;
        break;
    case SELECT_SPRAY:
    default:
        break;
    }
    return key;
}

bool selector_key_same(const struct selector_key *one, const struct selector_key *other)
{
    return one->select == other->select && one->forward == other->forward && one->family == other->family &&
           one->fields == other->fields && one->slot_count == other->slot_count && one->protocol == other->protocol;
}

static struct doca_flow_header_l4_port *select_ports(struct doca_flow_match *match, uint8_t protocol)
{
    match->outer.l4_type_ext = protocol == 17 ? DOCA_FLOW_L4_TYPE_EXT_UDP : DOCA_FLOW_L4_TYPE_EXT_TCP;
    return protocol == 17 ? &match->outer.udp.l4_port : &match->outer.tcp.l4_port;
}

/* The bits that a hash is made of. */
static void hash_mask(const struct selector_key *key, struct doca_flow_match *mask)
{
    struct address all = {.family = key->family};

    memset(all.bytes, 0xff, sizeof(all.bytes));
    if (key->select == SELECT_SPRAY) {
        mask->parser_meta.random = UINT16_MAX;
        return;
    }
    if (key->fields & HASH_SRC_IP)
        put_source(&mask->outer, &all);
    if (key->fields & HASH_DST_IP)
        put_destination(&mask->outer, &all);
    if (key->fields & HASH_SRC_PORT)
        select_ports(mask, key->protocol)->src_port = UINT16_MAX;
    if (key->fields & HASH_DST_PORT)
        select_ports(mask, key->protocol)->dst_port = UINT16_MAX;
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

    (void)snprintf(name, sizeof(name), "%s%u-%s", select_name(key->select), key->slot_count,
                   key->forward->name);
    slot.meta.u32[0] = UINT32_MAX;
    if (key->select == SELECT_SLOTS) {
        spec.type = DOCA_FLOW_PIPE_BASIC;
        spec.miss = &drop;
        spec.match = &match;
        select_ports(&match, key->protocol)->src_port = UINT16_MAX;
        select_ports(&mask, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)((key->slot_count - 1) << 1));
        if (key->slot_count == 1) /* no bit chooses: everything is slot 0 */
            memset(&match, 0, sizeof(match));
    } else {
        spec.type = DOCA_FLOW_PIPE_HASH; /* every hash has its entry, so there is no miss */
        hash_mask(key, &mask);
    }
    return pipe_create(port, &spec, &selector->pipe, fault);
}

static bool fill(struct selector *selector, struct flow_port *port, struct fault *fault)
{
    const struct selector_key *key = &selector->key;

    for (uint32_t i = 0; i < key->slot_count; i++) {
        struct doca_flow_actions slot = {.meta = {.u32 = {DOCA_HTOBE32(i)}}};
        struct doca_flow_match match = {0};
        doca_error_t result;

        if (key->select == SELECT_SLOTS) {
            select_ports(&match, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)(i << 1));
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
    if (!create(selector, port, slots, fault) || !fill(selector, port, fault)) {
        if (selector->pipe != NULL)
            pipe_discard(port, &selector->pipe);
        free(selector);
        return NULL;
    }
    selector->users = 1;
    selector->next = *all;
    *all = selector;
    return selector;
}

void selector_put(struct selector **all, struct selector *selector)
{
    if (--selector->users > 0)
        return;
    while (*all != selector)
        all = &(*all)->next;
    *all = selector->next;
    doca_flow_pipe_destroy(selector->pipe);
    free(selector);
}
