/* SPDX-License-Identifier: Apache-2.0 */
/* The time of day plus the seconds in the file that SHIFTED_CLOCK names. Other clocks are as they are. For LD_PRELOAD. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("SHIFTED_CLOCK");
    FILE *file = clock == CLOCK_REALTIME && path ? fopen(path, "re") : NULL;
    long seconds = 0;

    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1)
            now->tv_sec += seconds;
        fclose(file);
    }
    return result;
}
