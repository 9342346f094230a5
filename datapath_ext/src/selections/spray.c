/* SPDX-License-Identifier: Apache-2.0 */
/* spray: by a random number, another slot for each packet. */
#include "selector.h"

static void fill_key(const struct vip *vip, struct selector_key *key)
{
    (void)vip; /* all VIPs of one number of slots and one forwarding mode share a selector */
    (void)key;
}

static void fill_match(const struct selector_key *key, struct doca_flow_match *match, struct doca_flow_match *mask)
{
    (void)key;
    (void)match;
    mask->parser_meta.random = UINT16_MAX;
}

const struct select_ops select_spray = {
    .name = "spray",
    .type = DOCA_FLOW_PIPE_HASH,
    .fill_key = fill_key,
    .fill_match = fill_match,
};
