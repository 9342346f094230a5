/* SPDX-License-Identifier: Apache-2.0 */
/* Declared for programs that include it; the model has no buffers. */
#ifndef DOCA_BUF_H_
#define DOCA_BUF_H_

#include <stddef.h>

#include <doca_compat.h>
#include <doca_error.h>

struct doca_buf;

doca_error_t doca_buf_set_data(struct doca_buf *buf, void *data, size_t length);
doca_error_t doca_buf_chain_list(struct doca_buf *first, struct doca_buf *second);

#endif
