/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the control socket: what has come in and is no whole line yet, and what has not gone out yet. */
#ifndef CLIENT_H_
#define CLIENT_H_

#include <poll.h>

#include "engine.h"

struct client {
    int fd; /* -1: none */
    char *in, *out;
    size_t in_length, in_size, out_length, out_sent;
    size_t searched; /* bytes of `in` that are known to end no line */
    bool closing;    /* once `out` is out */
    uint64_t last_active;   /* the greater, the later it did something; the server's */
};

struct pollfd client_poll(const struct client *client);
/* Reads, runs what is complete, writes. True when it was asked to stop; the answer to that has gone out then, unless the
 * client does not read. */
bool client_serve(struct client *client, struct engine *engine);
void client_close(struct client *client);
/* Whether part of a request has come in, or part of an answer has not gone out. */
bool client_is_busy(const struct client *client);
/* Closes the connection for another client's sake, and tells it so if it is in the middle of a request. */
void client_evict(struct client *client);

#endif
