#include "outbox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "endpoint.h"

enum { LETTERS = 64, SPACE = 1 << 17 };

struct outbox {
    unsigned count;
    size_t used;
    struct netdev *to[LETTERS];
    struct mmsghdr letters[LETTERS];
    struct iovec frames[LETTERS];
    uint8_t space[SPACE];
};

struct outbox *outbox_create(void)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));

    for (unsigned i = 0; outbox != NULL && i < LETTERS; i++)
        outbox->letters[i].msg_hdr = (struct msghdr){.msg_iov = &outbox->frames[i], .msg_iovlen = 1};
    return outbox;
}

void outbox_destroy(struct outbox *outbox)
{
    free(outbox);
}

bool outbox_put(struct outbox *outbox, struct netdev *to, const uint8_t *frame, size_t length)
{
    if (outbox->count == LETTERS || length > SPACE - outbox->used)
        return false;
    memcpy(outbox->space + outbox->used, frame, length);
    outbox->frames[outbox->count] = (struct iovec){.iov_base = outbox->space + outbox->used, .iov_len = length};
    outbox->to[outbox->count++] = to;
    outbox->used += length;
    netdev_hold(to);
    return true;
}

/* Letters from..to, all to one device. The kernel stops at one that it does not take, which is left out then. */
static void send_run(struct outbox *outbox, unsigned from, unsigned to)
{
    struct netdev *netdev = outbox->to[from];

    for (unsigned at = from; at < to;) {
        int sent = sendmmsg(netdev_socket(netdev), &outbox->letters[at], to - at, MSG_DONTWAIT);

        if (sent > 0) {
            at += (unsigned)sent;
        } else {
            netdev_not_sent(netdev);
            at++;
        }
    }
    for (unsigned i = from; i < to; i++)
        netdev_release(netdev);
}

void outbox_flush(struct outbox *outbox)
{
    unsigned from = 0;

    for (unsigned i = 1; i <= outbox->count; i++)
        if (i == outbox->count || outbox->to[i] != outbox->to[from]) {
            send_run(outbox, from, i);
            from = i;
        }
    outbox->count = 0;
    outbox->used = 0;
}
