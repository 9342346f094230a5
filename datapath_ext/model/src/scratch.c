/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include "core.h"

/* Never 0 and never what was there, so that luck does not hide a mistake. */
static doca_be32_t junk(doca_be32_t old, uint32_t mask)
{
    doca_be32_t word;

    do {
        word = (old & ~DOCA_HTOBE32(mask)) | ((doca_be32_t)model_random() & DOCA_HTOBE32(mask));
    } while ((word & DOCA_HTOBE32(mask)) == 0 || word == old);
    return word;
}

void scratch_clobber(struct packet *packet, enum scratch_user user)
{
    doca_be32_t *u32 = packet->meta.u32;

    switch (user) {
    case SCRATCH_NAT64:
        for (unsigned i = 0; i < 3; i++)
            u32[i] = junk(u32[i], UINT32_MAX);
        break;
    case SCRATCH_HASH:
        u32[3] = junk(u32[3], 0xffff0000);
        break;
    case SCRATCH_LPM:
        u32[0] = junk(u32[0], UINT32_MAX);
        break;
    case SCRATCH_COLOR:
    default:
        u32[1] = (u32[1] & ~DOCA_HTOBE32(0xff)) | DOCA_HTOBE32((uint32_t)packet->parser.meter_color);
        break;
    }
}

void scratch_fill(struct packet *packet, bool with_pkt_meta)
{
    if (!doca_flow_model_is_strict()) {
        packet->meta = (struct doca_flow_meta){.pkt_meta = with_pkt_meta ? 0 : packet->meta.pkt_meta};
        return;
    }
    if (with_pkt_meta)
        packet->meta.pkt_meta = junk(packet->meta.pkt_meta, UINT32_MAX);
    for (unsigned i = 0; i < DOCA_FLOW_META_SCRATCH_PAD_MAX; i++)
        packet->meta.u32[i] = junk(packet->meta.u32[i], UINT32_MAX);
}
