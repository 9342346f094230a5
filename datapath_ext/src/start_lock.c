/* SPDX-License-Identifier: Apache-2.0 */
#include "start_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the file that is locked is still that of the path: the process that had it before may have removed it meanwhile. */
static bool is_current(const struct start_lock *lock)
{
    struct stat locked, named;

    return fstat(lock->fd, &locked) == 0 && lstat(lock->path, &named) == 0 && locked.st_dev == named.st_dev &&
           locked.st_ino == named.st_ino;
}

static bool refuse(struct start_lock *lock, const char *path, int error, struct fault *fault)
{
    if (lock->fd >= 0)
        (void)close(lock->fd);
    lock->fd = -1;
    if (error == EWOULDBLOCK)
        return fault_set(fault, "socket %s: another process serves it, and holds %s", path, lock->path);
    return fault_set(fault, "lock %s: %s", lock->path, strerror(error));
}

bool start_lock_take(struct start_lock *lock, const char *path, struct fault *fault)
{
    int length = snprintf(lock->path, sizeof(lock->path), "%s.lock", path);

    lock->fd = -1;
    if (length < 0 || (size_t)length >= sizeof(lock->path))
        return fault_set(fault, "lock %s.lock: %s", path, strerror(ENAMETOOLONG));
    for (;;) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (lock->fd < 0 || flock(lock->fd, LOCK_EX | LOCK_NB) != 0)
            return refuse(lock, path, errno, fault);
        if (is_current(lock))
            return true;
        (void)close(lock->fd);
    }
}

void start_lock_release(struct start_lock *lock)
{
    if (lock->fd < 0)
        return;
    if (is_current(lock))
        (void)unlink(lock->path); /* before it is given back: nobody else can have it now */
    (void)close(lock->fd);
    lock->fd = -1;
}
