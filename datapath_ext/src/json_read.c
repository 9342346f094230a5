/* SPDX-License-Identifier: Apache-2.0 */
#include "json_read.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 1 << 21, NESTED_MAX = 1 << 17, SHOWN = 76 };

/* What follows the string of which this is the inside. */
static const char *skip_string(const char *at, const char *end)
{
    for (;;) {
        const char *quote = memchr(at, '"', (size_t)(end - at)), *escape = quote;

        if (quote == NULL)
            return end;
        while (escape > at && escape[-1] == '\\')
            escape--;
        at = quote + 1;
        if ((quote - escape) % 2 == 0) /* nothing escapes it */
            return at;
    }
}

/* How many values a text has, and how many of them are objects and arrays; of no JSON, anything. */
static void count_values(const char *text, size_t length, size_t *values, size_t *nested)
{
    const char *end = text + length;

    *values = 1;
    *nested = 0;
    while (text < end) {
        char c = *text++;

        if (c == '"')
            text = skip_string(text, end);
        *nested += c == '{' || c == '[';
        *values += c == '{' || c == '[' || c == ',';
    }
}

json_t *read_json(const char *text, size_t length, const char *what, const char *expected, struct fault *fault)
{
    json_error_t error = {0};
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

    if (json == NULL)
        (void)fault_set(fault, "%s: found no JSON (line %d, column %d: %s), expected %s", what, error.line, error.column,
                        error.text, expected);
    return json;
}

json_t *read_bounded(const char *text, size_t length, const char *what, const char *expected, struct fault *fault)
{
    size_t values, nested;

    count_values(text, length, &values, &nested);
    if (values <= VALUES_MAX && nested <= NESTED_MAX)
        return read_json(text, length, what, expected, fault);
    (void)fault_set(fault, "%s: found %zu values, %zu of them objects and arrays, expected %d and %d at most: no "
                    "program has more", what, values, nested, (int)VALUES_MAX, (int)NESTED_MAX);
    return NULL;
}

/* The first bytes of a value's text, until they do not fit. */
struct shown {
    char text[SHOWN + 1];
    size_t length;
    bool whole;
};

static int take_text(const char *text, size_t length, void *context)
{
    struct shown *shown = context;
    size_t room = SHOWN - shown->length, taken = length < room ? length : room;

    memcpy(shown->text + shown->length, text, taken);
    shown->length += taken;
    shown->whole = taken == length;
    return shown->whole ? 0 : -1; /* that ends it */
}

/* At most 80 bytes of the value, so that one line says it. */
static void show(const json_t *found, char *text, size_t size)
{
    struct shown shown = {.whole = true};
    bool done = found != NULL && json_dump_callback(found, take_text, &shown, JSON_COMPACT | JSON_ENCODE_ANY) == 0;

    if (!done && shown.whole)
        (void)snprintf(text, size, "%s", found != NULL ? "something" : "nothing");
    else
        (void)snprintf(text, size, "%s%s", shown.text, shown.whole ? "" : "...");
}

bool read_refuse(const struct reader *reader, const char *key, const json_t *found, const char *expected)
{
    char text[96];

    show(found, text, sizeof(text));
    return fault_set(reader->fault, "%s%s%s: found %s, expected %s", reader->path, key != NULL ? "." : "",
                     key != NULL ? key : "", text, expected);
}

bool reader_open(struct reader *reader, const json_t *object, const char *path, struct fault *fault)
{
    *reader = (struct reader){.object = object, .fault = fault};
    (void)snprintf(reader->path, sizeof(reader->path), "%s", path);
    return json_is_object(object) || read_refuse(reader, NULL, object, "an object");
}

bool reader_close(const struct reader *reader)
{
    char text[160];
    void *at = json_object_iter((json_t *)(uintptr_t)reader->object);

    for (; at != NULL; at = json_object_iter_next((json_t *)(uintptr_t)reader->object, at)) {
        bool known = false;
        size_t used = 0;

        for (unsigned i = 0; i < reader->seen_count && !known; i++)
            known = strcmp(reader->seen[i], json_object_iter_key(at)) == 0;
        if (known)
            continue;
        for (unsigned i = 0; i < reader->seen_count && used < sizeof(text); i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? ", " : "", reader->seen[i]);
        return fault_set(reader->fault, "%s.%.40s: found an unknown member, expected one of %s", reader->path,
                         json_object_iter_key(at), text);
    }
    return true;
}

const json_t *reader_member(struct reader *reader, const char *key, const char *expected, bool needed)
{
    const json_t *found = json_object_get(reader->object, key);

    if (reader->seen_count < sizeof(reader->seen) / sizeof(reader->seen[0]))
        reader->seen[reader->seen_count++] = key;
    if (found == NULL && needed)
        (void)read_refuse(reader, key, NULL, expected);
    return found;
}

bool read_object(struct reader *reader, const char *key, struct reader *inner)
{
    const json_t *found = reader_member(reader, key, "an object", true);
    char path[sizeof(reader->path)];

    if (found == NULL)
        return false;
    (void)snprintf(path, sizeof(path), "%.120s.%s", reader->path, key);
    return reader_open(inner, found, path, reader->fault);
}

bool read_array(struct reader *reader, const char *key, const char *expected, const json_t **array)
{
    *array = reader_member(reader, key, expected, true);
    if (*array == NULL)
        return false;
    return json_is_array(*array) || read_refuse(reader, key, *array, expected);
}

bool read_number(struct reader *reader, const char *key, unsigned least, unsigned most, unsigned *value)
{
    const json_t *found;
    char expected[64];

    (void)snprintf(expected, sizeof(expected), "a whole number from %u to %u", least, most);
    found = reader_member(reader, key, expected, true);
    if (found == NULL)
        return false;
    if (!json_is_integer(found) || json_integer_value(found) < least || json_integer_value(found) > most)
        return read_refuse(reader, key, found, expected);
    *value = (unsigned)json_integer_value(found);
    return true;
}

bool read_name(struct reader *reader, const char *key, const char **name)
{
    static const char expected[] = "a name of 1 to 160 characters";
    const json_t *found = reader_member(reader, key, expected, true);
    const char *text = json_string_value(found);
    size_t characters = 0;

    if (found == NULL)
        return false;
    for (size_t i = 0; i < json_string_length(found); i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80; /* but for those that go on with a character */
    if (characters < 1 || characters > NAME_CHARACTERS || strlen(text) != json_string_length(found))
        return read_refuse(reader, key, found, expected);
    *name = text;
    return true;
}

bool read_mac(struct reader *reader, const char *key, uint8_t *mac)
{
    static const char expected[] = "a unicast MAC address such as \"02:00:00:00:00:01\"";
    const json_t *found = reader_member(reader, key, expected, true);
    const char *text = json_string_value(found);
    bool zero = true;

    if (found == NULL)
        return false;
    if (text == NULL || json_string_length(found) != 17)
        return read_refuse(reader, key, found, expected);
    for (unsigned i = 0; i < 6; i++) {
        char pair[3] = {text[3 * i], text[3 * i + 1], '\0'};

        if (strspn(pair, "0123456789abcdefABCDEF") != 2 || (i < 5 && text[3 * i + 2] != ':'))
            return read_refuse(reader, key, found, expected);
        mac[i] = (uint8_t)strtoul(pair, NULL, 16);
        zero = zero && mac[i] == 0;
    }
    return (!zero && (mac[0] & 1) == 0) || read_refuse(reader, key, found, expected);
}

bool read_address(struct reader *reader, const char *key, unsigned family, bool needed, struct address *address)
{
    const char *expected = family == 4 ? "an IPv4 address" : family == 6 ? "an IPv6 address" : "an IP address";
    const json_t *found = reader_member(reader, key, expected, needed);
    const char *text = json_string_value(found);
    static const uint8_t none[16];

    *address = (struct address){0};
    if (found == NULL)
        return !needed;
    if (text != NULL && family != 6 && inet_pton(AF_INET, text, address->bytes) == 1)
        address->family = 4;
    else if (text != NULL && family != 4 && inet_pton(AF_INET6, text, address->bytes) == 1)
        address->family = 6;
    if (address->family == 0 || memcmp(address->bytes, none, 16) == 0)
        return read_refuse(reader, key, found, expected);
    return true;
}

bool read_word(struct reader *reader, const char *key, const char *const *words, unsigned *value)
{
    const json_t *found;
    char expected[128] = "one of";

    for (unsigned i = 0; words[i] != NULL; i++) {
        size_t used = strlen(expected);

        (void)snprintf(expected + used, sizeof(expected) - used, "%s \"%s\"", i > 0 ? "," : "", words[i]);
    }
    found = reader_member(reader, key, expected, true);
    if (found == NULL)
        return false;
    for (*value = 0; words[*value] != NULL; (*value)++)
        if (json_is_string(found) && strcmp(json_string_value(found), words[*value]) == 0)
            return true;
    return read_refuse(reader, key, found, expected);
}
