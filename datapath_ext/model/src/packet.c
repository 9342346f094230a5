/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <stdlib.h>
#include <string.h>

struct packet *packet_create(const uint8_t *frame, size_t length)
{
    struct packet *packet = calloc(1, sizeof(*packet));

    if (packet == NULL)
        return NULL;
    packet->room = malloc(HEADROOM + length);
    if (packet->room == NULL) {
        free(packet);
        return NULL;
    }
    packet->data = packet->room + HEADROOM;
    packet->length = length;
    memcpy(packet->data, frame, length);
    return packet;
}

struct packet *packet_copy(const struct packet *packet)
{
    struct packet *copy = packet_create(packet->data, packet->length);
    uint8_t *room, *data;

    if (copy == NULL)
        return NULL;
    room = copy->room;
    data = copy->data;
    *copy = *packet;
    copy->room = room;
    copy->data = data;
    return copy;
}

void packet_destroy(struct packet *packet)
{
    if (packet == NULL)
        return;
    free(packet->room);
    free(packet);
}

bool packet_resize_at(struct packet *packet, size_t at, long add)
{
    uint8_t *data;

    if (add > 0 && (packet->data - packet->room < add || packet->length + (size_t)add > FRAME_MAX))
        return false;
    if (add < 0 && packet->length - at < (size_t)-add)
        return false;
    /* The part in front moves: it is short, and the allocation has its room there. */
    data = packet->data - add;
    memmove(data, packet->data, at);
    packet->data = data;
    packet->length = (size_t)((long)packet->length + add);
    return true;
}
