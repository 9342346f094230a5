/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "log.h"
#include "notify.h"
#include "start_lock.h"

enum { CLIENTS = 8, TICK_MS = 1000 };

struct server {
    struct sockaddr_un address;
    dev_t device; /* of the socket's file, to know it by */
    ino_t inode;
    bool bound;
    struct start_lock lock;
    int listener, signals;
    struct client clients[CLIENTS];
    uint64_t last_active;
    time_t watched; /* when the ports were last looked at */
};

/* Whether somebody serves the socket; one that nobody serves is what a killed process left. */
static bool is_served(const struct sockaddr_un *address)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* EAGAIN: somebody listens, but is too busy to take more. */
    bool served = probe >= 0 && (connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
                                 errno == EAGAIN);

    if (probe >= 0)
        (void)close(probe);
    return served;
}

static bool is_socket(const char *path, struct stat *status)
{
    return lstat(path, status) == 0 && S_ISSOCK(status->st_mode);
}

static bool open_listener(struct server *server, struct fault *fault)
{
    const char *path = server->address.sun_path;
    struct stat status;
    mode_t old;
    int error;

    /* Before the socket is looked at: two starts would both find that nobody serves it. */
    if (!start_lock_take(&server->lock, path, fault))
        return false;
    if (is_served(&server->address)) /* by what knows nothing of the lock */
        return fault_set(fault, "socket %s: another process serves it", path);
    if (is_socket(path, &status))
        (void)unlink(path);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listener < 0)
        return fault_set(fault, "socket %s: %s", path, strerror(errno));
    old = umask(0177); /* mode 0600 from the first moment on */
    error = bind(server->listener, (const struct sockaddr *)&server->address, sizeof(server->address)) == 0 ? 0 : errno;
    (void)umask(old);
    if (error != 0)
        return fault_set(fault, "socket %s: %s", path, strerror(error));
    server->bound = is_socket(path, &status);
    server->device = status.st_dev;
    server->inode = status.st_ino;
    return listen(server->listener, CLIENTS) == 0 || fault_set(fault, "socket %s: %s", path, strerror(errno));
}

static bool open_signals(struct server *server, struct fault *fault)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    /* Whoever read the log may be gone, and packets flow all the same. */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return fault_set(fault, "signals: %s", strerror(errno));
    server->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return server->signals >= 0 || fault_set(fault, "signals: %s", strerror(errno));
}

struct server *server_open(const char *path, struct fault *fault)
{
    struct server *server = calloc(1, sizeof(*server));

    if (server == NULL) {
        (void)fault_set(fault, "no memory for the control socket");
        return NULL;
    }
    server->listener = server->signals = server->lock.fd = -1;
    for (unsigned i = 0; i < CLIENTS; i++)
        server->clients[i].fd = -1;
    server->address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(server->address.sun_path))
        (void)fault_set(fault, "socket %s: found a path of %zu bytes, expected %zu at most", path, strlen(path),
                        sizeof(server->address.sun_path) - 1);
    else
        memcpy(server->address.sun_path, path, strlen(path) + 1);
    if (fault->text[0] == '\0' && open_signals(server, fault) && open_listener(server, fault))
        return server;
    server_close(server);
    return NULL;
}

void server_close(struct server *server)
{
    struct stat status;

    if (server == NULL)
        return;
    for (unsigned i = 0; i < CLIENTS; i++)
        client_close(&server->clients[i]);
    /* Not a socket that somebody put in its place since. */
    if (server->bound && is_socket(server->address.sun_path, &status) && status.st_dev == server->device &&
        status.st_ino == server->inode)
        (void)unlink(server->address.sun_path);
    if (server->listener >= 0)
        (void)close(server->listener);
    if (server->signals >= 0)
        (void)close(server->signals);
    start_lock_release(&server->lock);
    free(server);
}

/* A free place, or that of the client that has been silent longest, also in the middle of a request. */
static struct client *find_place(struct server *server)
{
    struct client *place = NULL;

    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &server->clients[i];

        if (client->fd < 0)
            return client;
        if (place == NULL || client->last_active < place->last_active)
            place = client;
    }
    return place;
}

static void take_client(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *place;

    if (fd < 0)
        return;
    place = find_place(server);
    if (client_is_busy(place))
        log_event(LOG_WARNING, "too_many_clients", "{s:i}", "most", (int)CLIENTS);
    client_evict(place);
    place->fd = fd;
    place->last_active = ++server->last_active;
}

static bool take_signal(struct server *server)
{
    struct signalfd_siginfo info;

    if (read(server->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;
    log_event(LOG_INFO, "signal", "{s:s}", "signal", info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    return true;
}

/* Once a second, however many requests come: listing devices is no small thing. */
static void watch(struct server *server, struct engine *engine)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec == server->watched)
        return;
    server->watched = now.tv_sec;
    engine_check_ports(engine);
    engine_retry_removals(engine);
    notify_alive(); /* by nothing but this loop: a loop that hangs is not alive */
}

bool server_run(struct server *server, struct engine *engine, struct fault *fault)
{
    bool stop = false;

    notify_systemd("READY=1"); /* packets flow and commands are taken */
    while (!stop) {
        struct pollfd ready[CLIENTS + 2] = {{.fd = server->listener, .events = POLLIN},
                                            {.fd = server->signals, .events = POLLIN}};

        for (unsigned i = 0; i < CLIENTS; i++)
            ready[i + 2] = client_poll(&server->clients[i]);
        if (poll(ready, CLIENTS + 2, TICK_MS) < 0 && errno != EINTR)
            return fault_set(fault, "waiting for requests: %s", strerror(errno));
        watch(server, engine);
        for (unsigned i = 0; i < CLIENTS && !stop; i++)
            if (ready[i + 2].revents != 0) {
                server->clients[i].last_active = ++server->last_active;
                stop = client_serve(&server->clients[i], engine);
            }
        if (ready[0].revents != 0)
            take_client(server);
        if (ready[1].revents != 0)
            stop = take_signal(server) || stop;
    }
    notify_systemd("STOPPING=1");
    return true;
}
