/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket and the loop that serves it: a UNIX stream socket of mode 0600, JSON lines both ways. */
#ifndef SERVER_H_
#define SERVER_H_

#include "engine.h"

struct server;

/* Opens the socket at the path; a socket that nobody serves any more is replaced. Of several starts at once one succeeds. */
struct server *server_open(const char *path, struct fault *fault);
void server_close(struct server *server);

/* Serves until SIGTERM, SIGINT or the command to stop. */
bool server_run(struct server *server, struct engine *engine, struct fault *fault);

#endif
