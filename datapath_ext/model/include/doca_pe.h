/* SPDX-License-Identifier: Apache-2.0 */
/* Declared for programs that include it; the model has no progress engine. */
#ifndef DOCA_PE_H_
#define DOCA_PE_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_ctx.h>
#include <doca_error.h>

struct doca_pe;

doca_error_t doca_pe_create(struct doca_pe **pe);
doca_error_t doca_pe_destroy(struct doca_pe *pe);
uint8_t doca_pe_progress(struct doca_pe *pe);

#endif
