/* SPDX-License-Identifier: Apache-2.0 */
/* l2: the destination MAC address becomes the backend's; nothing else changes. The backend owns the VIP. */
#include "forward.h"

#include <doca_bitfield.h>
#include <stdio.h>
#include <string.h>

static struct doca_flow_fwd slots_fwd(const struct forward_pipes *pipes)
{
    (void)pipes;
    return fwd_port(PORT_OUT);
}

static void slot_template(struct doca_flow_actions *actions)
{
    actions->meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN);
    memset(actions->outer.eth.dst_mac, 0xff, 6);
}

static struct slot_content slot_content(const struct backend *backend, const struct target *target)
{
    struct slot_content content = {.mark = MARK_PLAIN};

    (void)target;
    memcpy(content.mac, backend->mac, 6);
    return content;
}

static void slot_actions(const struct slot_content *content, struct doca_flow_actions *actions)
{
    actions->meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN); /* as in the template: see fill_entry() of ipip.c */
    memcpy(actions->outer.eth.dst_mac, content->mac, 6);
}

static json_t *slot_report(const char *backend, const struct slot_content *content)
{
    const uint8_t *mac = content->mac;
    char text[18];

    (void)snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    return json_pack("{s:s, s:s}", "backend", backend, "mac", text);
}

const struct forward_ops forward_l2 = {
    .name = "l2",
    .slots_fwd = slots_fwd,
    .slot_template = slot_template,
    .slot_content = slot_content,
    .slot_actions = slot_actions,
    .slot_report = slot_report,
};
