/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_H_
#define TESTS_FUZZ_H_

#include "testbed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
