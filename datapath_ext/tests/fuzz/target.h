/* SPDX-License-Identifier: Apache-2.0 */
/* What each fuzz target has: the fuzzer's entry points, and the inputs that it starts from. */
#ifndef TESTS_FUZZ_TARGET_H_
#define TESTS_FUZZ_TARGET_H_

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
/* The fuzzer's own mutations, or replay.c's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

typedef void (*seed_user)(const char *name, const uint8_t *data, size_t size);
void each_seed(seed_user use);

/* mutate_json.c: one of the lines, which are JSON, gets one value of another kind, or one more, or one less. */
size_t mutate_json_lines(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
