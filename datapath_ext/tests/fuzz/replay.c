/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target without a fuzzer: a test that runs its seeds and some mutations of each, always the same ones.
 *   replay_TARGET              run them
 *   replay_TARGET --write DIR  write the seeds to files, for the fuzzer to start from
 *   replay_TARGET FILE...      run files, such as those that a fuzzer found */
#include "target.h"

#include "../doca_assert.h"

enum { MUTATIONS = 60, ROOM = 1 << 16 };

static const char *directory;
static uint64_t state = 1;

static uint32_t draw(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 33);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
    for (unsigned n = 1 + draw() % 4; n > 0 && size > 0; n--)
        data[draw() % size] = draw() % 2 ? (uint8_t)draw() : (uint8_t)("\0\377{}[]\",:\n0"[draw() % 11]);
    if (draw() % 8 == 0 && size > 1)
        size = draw() % size;
    return size <= room ? size : room;
}

/* In memory of its own, so that reading past its end is seen. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    assert_true(copy != NULL);
    copy = realloc(copy, size > 0 ? size : 1);
    assert_true(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_seed(const char *name, const uint8_t *data, size_t size)
{
    static uint8_t mutated[ROOM];

    (void)fprintf(stderr, "%s\n", name);
    run(data, size);
    for (unsigned i = 0; i < MUTATIONS; i++) {
        size_t length = size;

        assert_true(size <= sizeof(mutated));
        memcpy(mutated, data, size);
        for (unsigned n = 1 + draw() % 3; n > 0 && length > 0; n--)
            length = LLVMFuzzerCustomMutator(mutated, length, sizeof(mutated), draw());
        run(mutated, length);
    }
}

static void write_seed(const char *name, const uint8_t *data, size_t size)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    assert_true(file != NULL);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void run_file(const char *path)
{
    static uint8_t data[ROOM];
    FILE *file = fopen(path, "rb");
    size_t size;

    assert_true(file != NULL);
    size = fread(data, 1, sizeof(data), file);
    assert_int_equal(fclose(file), 0);
    run(data, size);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        directory = argv[2];
        each_seed(write_seed);
        return EXIT_SUCCESS;
    }
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    if (argc == 1)
        each_seed(run_seed);
    return EXIT_SUCCESS;
}
