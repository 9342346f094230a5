/* SPDX-License-Identifier: Apache-2.0 */
/* Why something was refused, as a sentence for people: what was wanted, what was found. The first reason stays. */
#ifndef FAULT_H_
#define FAULT_H_

#include <stdbool.h>

#include <doca_error.h>

struct fault {
    char text[512];
    doca_error_t code; /* of the call that was refused; SUCCESS: it was none */
};

/* Both return false, so that `return fault_set(...)` reads as what it does. */
bool fault_set(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a refusal of DOCA Flow: its code, and what the model says about it if it is the model. */
bool fault_doca(struct fault *fault, doca_error_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts what is concerned in front of the reason: "vip dns4: ...". */
bool fault_about(struct fault *fault, const char *kind, const char *name);

#endif
