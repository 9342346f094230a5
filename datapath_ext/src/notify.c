/* SPDX-License-Identifier: Apache-2.0 */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

/* Whether the state went out, or nobody waits for it. */
static bool send_state(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path != NULL ? strlen(path) : 0;
    bool sent;
    int fd;

    if (length < 2 || length >= sizeof(address.sun_path))
        return true;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* an abstract name */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sent = fd >= 0 && sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) >= 0;
    if (fd >= 0) {
        int error = errno;

        (void)close(fd);
        errno = error;
    }
    return sent;
}

void notify_systemd(const char *state)
{
    if (!send_state(state))
        log_event(LOG_WARNING, "not_notified", "{s:s, s:s}", "state", state, "error", strerror(errno));
}

void notify_alive(void)
{
    const char *process = getenv("WATCHDOG_PID");

    if (getenv("WATCHDOG_USEC") == NULL || (process != NULL && strtol(process, NULL, 10) != (long)getpid()))
        return;
    (void)send_state("WATCHDOG=1"); /* each second: what fails once is made good by the next */
}
