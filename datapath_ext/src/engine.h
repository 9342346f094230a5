/* SPDX-License-Identifier: Apache-2.0 */
/* A data plane and the program that it runs. */
#ifndef ENGINE_H_
#define ENGINE_H_

#include <time.h>

#include "dataplane.h"

struct engine {
    struct dataplane dataplane;
    struct program *program;
    struct program *retained; /* that hardware may still follow in part, since undoing failed */
    struct timespec started, loaded;
    unsigned loads, refused;
    bool consistent; /* hardware does what the program says */
    bool present[PORTS];
    bool draining;
};

/* Takes the program over, whatever comes of it. */
bool engine_open(struct engine *engine, struct program *program, struct fault *fault);
void engine_close(struct engine *engine);

/* Takes the program over. If it is refused, the one before goes on. */
bool engine_load(struct engine *engine, struct program *program, struct fault *fault);
/* A program that was refused before it became one. */
void engine_refuse(struct engine *engine, const struct fault *fault);
/* Moves the backend's slots to the next slots' backends, until the next load. */
bool engine_drain(struct engine *engine, const char *backend, unsigned *slots, struct fault *fault);
/* Tries again to remove what hardware refused to. */
void engine_retry_removals(struct engine *engine);
/* Looks whether the ports are still there, and logs what changed. */
void engine_check_ports(struct engine *engine);

#endif
