/* SPDX-License-Identifier: Apache-2.0 */
#include "tx_batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH_MAX = 64, SPACE = 1 << 17 };

struct tx_batch {
    unsigned count;
    size_t used;
    struct tx_device *to[BATCH_MAX];
    struct mmsghdr messages[BATCH_MAX];
    struct iovec frames[BATCH_MAX];
    uint8_t space[SPACE];
};

void tx_device_put(struct tx_device *device)
{
    if (--device->users == 0)
        device->release(device);
}

struct tx_batch *tx_batch_create(void)
{
    struct tx_batch *batch = calloc(1, sizeof(*batch));

    for (unsigned i = 0; batch != NULL && i < BATCH_MAX; i++)
        batch->messages[i].msg_hdr = (struct msghdr){.msg_iov = &batch->frames[i], .msg_iovlen = 1};
    return batch;
}

void tx_batch_destroy(struct tx_batch *batch)
{
    free(batch);
}

bool tx_batch_add(struct tx_batch *batch, struct tx_device *to, const uint8_t *frame, size_t length)
{
    if (batch->count == BATCH_MAX || length > SPACE - batch->used)
        return false;
    memcpy(batch->space + batch->used, frame, length);
    batch->frames[batch->count] = (struct iovec){.iov_base = batch->space + batch->used, .iov_len = length};
    batch->to[batch->count++] = to;
    batch->used += length;
    to->users++;
    return true;
}

/* Messages from..to, all to one device. The kernel stops at one that it does not take, which is left out then. */
static void send_run(struct tx_batch *batch, unsigned from, unsigned to)
{
    struct tx_device *device = batch->to[from];

    for (unsigned at = from; at < to;) {
        int sent = sendmmsg(device->socket, &batch->messages[at], to - at, MSG_DONTWAIT);

        if (sent > 0) {
            at += (unsigned)sent;
        } else {
            device->not_sent++;
            at++;
        }
    }
    for (unsigned i = from; i < to; i++)
        tx_device_put(device);
}

void tx_batch_flush(struct tx_batch *batch)
{
    unsigned from = 0;

    for (unsigned i = 1; i <= batch->count; i++)
        if (i == batch->count || batch->to[i] != batch->to[from]) {
            send_run(batch, from, i);
            from = i;
        }
    batch->count = 0;
    batch->used = 0;
}
