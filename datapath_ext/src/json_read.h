/* SPDX-License-Identifier: Apache-2.0 */
/* Strict reading of JSON: every member is asked for by name, what was not asked for is refused, and each refusal says
 * where ("$.vips[3].port"), what was found and what was expected. */
#ifndef JSON_READ_H_
#define JSON_READ_H_

#include <jansson.h>

#include "program.h"

/* An object that is being read, and the members seen so far. */
struct reader {
    const json_t *object;
    char path[160];
    const char *seen[16];
    unsigned seen_count;
    struct fault *fault;
};

/* NULL, and a fault that starts with `what`, if the text is no JSON. */
json_t *read_json(const char *text, size_t length, const char *what, const char *expected, struct fault *fault);
/* The same, for text of which nothing is known: refused if it has more values than any program. They are counted before
 * they are parsed: parsed, each takes up to hundreds of bytes. */
json_t *read_bounded(const char *text, size_t length, const char *what, const char *expected, struct fault *fault);

/* The value was not what was expected. Always false. */
bool read_refuse(const struct reader *reader, const char *key, const json_t *found, const char *expected);

bool reader_open(struct reader *reader, const json_t *object, const char *path, struct fault *fault);
/* Refuses members that nobody asked for. */
bool reader_close(const struct reader *reader);
/* NULL if there is none; with `needed`, that is a fault. */
const json_t *reader_member(struct reader *reader, const char *key, const char *expected, bool needed);

bool read_object(struct reader *reader, const char *key, struct reader *inner);
bool read_array(struct reader *reader, const char *key, const char *expected, const json_t **array);
bool read_number(struct reader *reader, const char *key, unsigned least, unsigned most, unsigned *value);
bool read_name(struct reader *reader, const char *key, const char **name);
bool read_mac(struct reader *reader, const char *key, uint8_t *mac);
/* family 0: either. Without `needed`, an absent member leaves an address of family 0. */
bool read_address(struct reader *reader, const char *key, unsigned family, bool needed, struct address *address);
/* The number of the word in the list, which NULL ends. */
bool read_word(struct reader *reader, const char *key, const char *const *words, unsigned *value);

#endif
