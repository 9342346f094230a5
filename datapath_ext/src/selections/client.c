/* SPDX-License-Identifier: Apache-2.0 */
/* client: by a hash of the fields that the program names. This sets the mask of the HASH pipe; the pipe computes the hash (in the
 * software model: model/src/hash.c). */
#include "selector.h"

#include <string.h>

static void fill_key(const struct vip *vip, struct selector_key *key)
{
    key->fields = vip->hash_fields;
    if (vip->hash_fields & (HASH_SRC_IP | HASH_DST_IP))
        key->family = vip->address.family;
    if (vip->hash_fields & (HASH_SRC_PORT | HASH_DST_PORT))
        key->protocol = vip->protocol;
}

static void fill_match(const struct selector_key *key, struct doca_flow_match *match, struct doca_flow_match *mask)
{
    struct address all = {.family = key->family};

    (void)match;
    memset(all.bytes, 0xff, sizeof(all.bytes));
    if (key->fields & HASH_SRC_IP)
        put_source(&mask->outer, &all);
    if (key->fields & HASH_DST_IP)
        put_destination(&mask->outer, &all);
    if (key->fields & HASH_SRC_PORT)
        selector_ports(mask, key->protocol)->src_port = UINT16_MAX;
    if (key->fields & HASH_DST_PORT)
        selector_ports(mask, key->protocol)->dst_port = UINT16_MAX;
}

const struct select_ops select_client = {
    .name = "client",
    .has_fields = true,
    .type = DOCA_FLOW_PIPE_HASH,
    .fill_key = fill_key,
    .fill_match = fill_match,
};
