/* SPDX-License-Identifier: Apache-2.0 */
/* What no single value shows: whether a program's parts fit each other. */
#ifndef PROGRAM_CHECK_H_
#define PROGRAM_CHECK_H_

#include "program.h"

bool program_check(const struct program *program, struct fault *fault);

#endif
