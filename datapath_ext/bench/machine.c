/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

static void cpu_model(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    (void)snprintf(text, size, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(text, size, "%.100s", colon + 2);
        break;
    }
    if (file != NULL)
        (void)fclose(file);
}

json_t *machine_json(void)
{
    struct utsname system = {0};
    char cpu[128];
    double load[1] = {-1};

    cpu_model(cpu, sizeof(cpu));
    (void)uname(&system);
    (void)getloadavg(load, 1);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:f}", "cpu", cpu, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN),
                     "kernel", system.release, "compiler", __VERSION__, "build", BUILDTYPE, "load_at_start", load[0]);
}
