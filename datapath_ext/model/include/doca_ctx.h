/* SPDX-License-Identifier: Apache-2.0 */
/* Declared for programs that include it; the model has no contexts. */
#ifndef DOCA_CTX_H_
#define DOCA_CTX_H_

#include <doca_compat.h>
#include <doca_error.h>

enum doca_ctx_states {
    DOCA_CTX_STATE_IDLE = 0,
    DOCA_CTX_STATE_STARTING,
    DOCA_CTX_STATE_RUNNING,
    DOCA_CTX_STATE_STOPPING,
};

struct doca_ctx;

doca_error_t doca_ctx_start(struct doca_ctx *ctx);
doca_error_t doca_ctx_stop(struct doca_ctx *ctx);
doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx, enum doca_ctx_states *state);

#endif
