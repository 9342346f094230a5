/* SPDX-License-Identifier: Apache-2.0 */
/* slots: by the source port, as the switch's own slots: (port >> 1) mod slots. */
#include "selector.h"

#include <doca_bitfield.h>
#include <string.h>

static void fill_key(const struct vip *vip, struct selector_key *key)
{
    key->protocol = vip->protocol;
}

static void fill_match(const struct selector_key *key, struct doca_flow_match *match, struct doca_flow_match *mask)
{
    selector_ports(match, key->protocol)->src_port = UINT16_MAX;
    selector_ports(mask, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)((key->slot_count - 1) << 1));
    if (key->slot_count == 1) /* no bit chooses: everything is slot 0 */
        memset(match, 0, sizeof(*match));
}

static void match_slot(const struct selector_key *key, uint32_t slot, struct doca_flow_match *match)
{
    selector_ports(match, key->protocol)->src_port = DOCA_HTOBE16((uint16_t)(slot << 1));
}

const struct select_ops select_slots = {
    .name = "slots",
    .type = DOCA_FLOW_PIPE_BASIC,
    .fill_key = fill_key,
    .fill_match = fill_match,
    .match_slot = match_slot,
};
