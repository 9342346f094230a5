/* SPDX-License-Identifier: Apache-2.0 */
/* One process serves a control socket: whoever holds the lock file beside it, from before it looks at the socket to its end. */
#ifndef START_LOCK_H_
#define START_LOCK_H_

#include <limits.h>
#include <stdbool.h>

#include "fault.h"

struct start_lock {
    int fd; /* below 0: not held */
    char path[PATH_MAX];
};

/* Takes PATH.lock, without waiting for another process that has it. */
bool start_lock_take(struct start_lock *lock, const char *path, struct fault *fault);

/* Removes the file, too. The kernel gives the lock of a process that was killed back; its file is taken again. */
void start_lock_release(struct start_lock *lock);

#endif
