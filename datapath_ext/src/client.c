/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "log.h"

/* The largest program there can be has a million slots with names that people can read. */
enum { LINE_MAX_ = 128 << 20, CHUNK = 1 << 16, KEPT_MAX = 1 << 20 };

struct pollfd client_poll(const struct client *client)
{
    /* No new request while an answer waits: a client that never reads cannot make us hoard. */
    return (struct pollfd){.fd = client->fd, .events = client->out != NULL ? POLLOUT : POLLIN};
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd);
    free(client->in);
    free(client->out);
    *client = (struct client){.fd = -1};
}

bool client_is_busy(const struct client *client)
{
    return client->in_length > 0 || client->out != NULL;
}

void client_evict(struct client *client)
{
    static const char gone[] = "{\"ok\":false,\"error\":\"request: found no end of the line, and another client needed "
                               "the place of the one that was silent longest\"}\n";

    if (client->fd >= 0 && client->in_length > 0 && client->out == NULL)
        (void)send(client->fd, gone, sizeof(gone) - 1, MSG_NOSIGNAL);
    client_close(client);
}

/* False when the connection is over. */
static bool transmit(struct client *client)
{
    while (client->out != NULL) {
        ssize_t put = send(client->fd, client->out + client->out_sent, client->out_length - client->out_sent,
                           MSG_NOSIGNAL);

        if (put < 0)
            return errno == EAGAIN || errno == EINTR;
        client->out_sent += (size_t)put;
        if (client->out_sent < client->out_length)
            continue;
        free(client->out);
        client->out = NULL;
        client->out_length = client->out_sent = 0;
    }
    return true;
}

static bool answer(struct client *client, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t length = text != NULL ? strlen(text) : 0;

    json_decref(json);
    if (text == NULL)
        return false;
    text[length] = '\n'; /* in place of its end, which nobody needs any more */
    client->out = text;
    client->out_length = length + 1;
    return transmit(client);
}

static bool make_room(struct client *client)
{
    size_t size = client->in_size == 0 ? 2 * CHUNK : 2 * client->in_size;
    char *in;

    if (client->in_size - client->in_length >= CHUNK)
        return true;
    in = size <= LINE_MAX_ ? realloc(client->in, size) : NULL;
    if (in == NULL)
        return false;
    client->in = in;
    client->in_size = size;
    return true;
}

/* False when the connection is over. */
static bool receive(struct client *client)
{
    ssize_t got;

    if (!make_room(client)) {
        log_event(LOG_ERROR, "request_too_long", "{s:I}", "bytes", (json_int_t)client->in_length);
        client->closing = true; /* what else it sends is not worth reading */
        return answer(client, json_pack("{s:b, s:s}", "ok", 0, "error", "request: found no end of the line, and there "
                                        "is no memory for more, or it has 128 MiB"));
    }
    got = recv(client->fd, client->in + client->in_length, CHUNK, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    client->in_length += (size_t)got;
    return got > 0;
}

/* Lines that are complete, until one's answer has to wait. False when the connection is over. */
static bool run_lines(struct client *client, struct engine *engine, bool *stop)
{
    size_t from = 0;
    bool open = true;

    while (open && client->out == NULL && !*stop && client->searched < client->in_length) {
        const char *end = memchr(client->in + client->searched, '\n', client->in_length - client->searched);

        client->searched = end != NULL ? (size_t)(end - client->in) + 1 : client->in_length;
        if (end == NULL)
            break;
        open = answer(client, command_run(engine, client->in + from, client->searched - 1 - from, stop));
        from = client->searched;
    }
    if (from > 0) {
        client->in_length -= from;
        client->searched -= from;
        memmove(client->in, client->in + from, client->in_length);
    }
    if (client->in_length == 0 && client->in_size > KEPT_MAX) {
        free(client->in);
        client->in = NULL;
        client->in_size = 0;
    }
    return open;
}

bool client_serve(struct client *client, struct engine *engine)
{
    bool waiting = client->out != NULL, stop = false;

    if (!(waiting ? transmit(client) : receive(client)) ||
        (!client->closing && !run_lines(client, engine, &stop)) || (client->closing && client->out == NULL))
        client_close(client);
    return stop;
}
