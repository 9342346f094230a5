/* SPDX-License-Identifier: Apache-2.0 */
/* What the control socket can be asked: {"command": "status"} and so on, one JSON object per line each way. */
#ifndef COMMAND_H_
#define COMMAND_H_

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct fault;

/* Carries out one line; the answer is {"ok": true, ...} or {"ok": false, "error": "..."}. *stop: asked to end. */
json_t *command_run(struct engine *engine, const char *line, size_t length, bool *stop);
/* The same for a line that was read already; NULL: it could not be, and the fault says why. */
json_t *command_answer(struct engine *engine, const json_t *request, bool *stop, struct fault *fault);

#endif
