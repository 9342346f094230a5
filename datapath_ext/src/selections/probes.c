/* SPDX-License-Identifier: Apache-2.0 */
/* probes: by the upper 12 bits of the source port, the number of a backend. What names none is dropped. */
#include "selector.h"

#include <doca_bitfield.h>

enum { LOW_BITS = 4 };

static void fill_key(const struct vip *vip, struct selector_key *key)
{
    key->protocol = vip->protocol;
    key->numbers = vip->numbers;
}

static void fill_match(const struct selector_key *key, struct doca_flow_match *match, struct doca_flow_match *mask)
{
    selector_ports(match, key->protocol)->src_port = UINT16_MAX;
    selector_ports(mask, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)(UINT16_MAX << LOW_BITS));
}

static void match_slot(const struct selector_key *key, uint32_t slot, struct doca_flow_match *match)
{
    selector_ports(match, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)(key->numbers[slot] << LOW_BITS));
}

const struct select_ops select_probes = {
    .name = "probes",
    .type = DOCA_FLOW_PIPE_BASIC,
    .fill_key = fill_key,
    .fill_match = fill_match,
    .match_slot = match_slot,
};
