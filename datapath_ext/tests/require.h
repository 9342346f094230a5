/* SPDX-License-Identifier: Apache-2.0 */
/* For what is no test case, benchmarks and building frames: ends the process if the condition does not hold. */
#ifndef TESTS_REQUIRE_H_
#define TESTS_REQUIRE_H_

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                              \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition);             \
            abort();                                                                                    \
        }                                                                                               \
    } while (0)

#endif
