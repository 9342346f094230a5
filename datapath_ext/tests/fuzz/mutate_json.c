/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations that keep JSON what it is: bytes alone would rarely get past the reader. */
#include "target.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state;

static uint32_t draw(uint32_t limit)
{
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % limit;
}

/* Where a value is: in an object by key, or in an array by index. */
struct place {
    json_t *parent;
    const char *key;
    size_t index;
};

/* Counts the values below, and notes number `wanted`. */
static void walk(json_t *json, size_t *count, size_t wanted, struct place *place)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_object(json))
        json_object_foreach(json, key, item) {
            if ((*count)++ == wanted)
                *place = (struct place){.parent = json, .key = key};
            walk(item, count, wanted, place);
        }
    json_array_foreach(json, i, item) {
        if ((*count)++ == wanted)
            *place = (struct place){.parent = json, .index = i};
        walk(item, count, wanted, place);
    }
}

static struct place any_place(json_t *root)
{
    struct place place = {0};
    size_t count = 0, seen = 0;

    walk(root, &count, SIZE_MAX, &place);
    if (count > 0)
        walk(root, &seen, draw((uint32_t)count), &place);
    return place;
}

static json_t *value_at(struct place place)
{
    return place.key != NULL ? json_object_get(place.parent, place.key) : json_array_get(place.parent, place.index);
}

static json_t *any_string(void)
{
    static const char *const words[] = {
        "b1", "b2", "b3", "ipv4", "ipv6", "udp", "tcp", "slots", "client", "spray", "l2", "ipip", "siit", "src_ip",
        "dst_ip", "src_port", "dst_port", "192.0.2.11", "2001:db8::12", "198.51.100.1", "02:00:00:00:00:33", "", "x",
        "ext-in", "ext-out", "load", "status", "counters", "slots", "dump", "drain", "\xc3\xa9\xc3\xa9\xc3\xa9",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9",
    };

    return json_string(words[draw(sizeof(words) / sizeof(words[0]))]);
}

static json_t *any_value(void)
{
    static const json_int_t numbers[] = {0, 1, -1, 2, 16, 53, 54, 64, 256, 4096, 32768, 65535, 65536, 1048576, 4194304,
                                         2147483648, 4294967295, 4294967296, INT64_MAX};

    switch (draw(6)) {
    case 0:
        return json_array();
    case 1:
        return draw(2) ? json_object() : json_null();
    case 2:
        return draw(2) ? json_real(1.5) : json_boolean(draw(2));
    case 3:
    case 4:
        return json_integer(numbers[draw(sizeof(numbers) / sizeof(numbers[0]))]);
    default:
        return any_string();
    }
}

static json_t *damage_string(const json_t *old)
{
    char text[256];
    size_t length = json_string_length(old);

    if (length >= sizeof(text))
        return any_string();
    memcpy(text, json_string_value(old), length);
    length = LLVMFuzzerMutate((uint8_t *)text, length, sizeof(text));
    return json_stringn(text, length);
}

/* What comes in the place of the value; NULL if nothing can. */
static json_t *replacement(json_t *root, const json_t *old)
{
    switch (draw(5)) {
    case 0:
        return any_value();
    case 1:
        return json_is_string(old) ? damage_string(old) : any_value();
    case 2:
        if (!json_is_integer(old) || json_integer_value(old) > INT64_MAX / 2 || json_integer_value(old) < INT64_MIN / 2)
            return any_string();
        return json_integer(json_integer_value(old) + (draw(2) ? 1 : -1));
    default:
        return json_deep_copy(value_at(any_place(root)));
    }
}

/* All results are ignored: what cannot be done changes nothing. */
static void mutate(json_t *root)
{
    struct place place = any_place(root);
    json_t *old = place.parent != NULL ? value_at(place) : NULL;

    if (old == NULL)
        return;
    switch (draw(8)) {
    case 0:
        (void)(place.key != NULL ? json_object_del(place.parent, place.key)
                                 : json_array_remove(place.parent, place.index));
        break;
    case 1: /* twice as many, as slots have to be */
        if (json_is_array(old) && json_array_size(old) < 64) {
            json_t *copy = json_copy(old);

            (void)json_array_extend(old, copy);
            json_decref(copy);
        }
        break;
    case 2:
        if (json_is_array(place.parent))
            (void)json_array_insert_new(place.parent, place.index, json_deep_copy(old));
        else
            (void)json_object_set_new(place.parent, "more", any_value());
        break;
    default:
        old = replacement(root, old);
        if (old != NULL)
            (void)(place.key != NULL ? json_object_set_new(place.parent, place.key, old)
                                     : json_array_set_new(place.parent, place.index, old));
        break;
    }
}

static size_t put_line(uint8_t *data, size_t size, size_t room, size_t from, size_t to, const char *text)
{
    size_t length = strlen(text), rest = size - to;

    if (from + length + rest > room)
        return 0;
    memmove(data + from + length, data + to, rest);
    memcpy(data + from, text, length);
    return from + length + rest;
}

size_t mutate_json_lines(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size_t lines = 1, from = 0, to, new_size = 0, wanted;
    json_t *json;
    char *text = NULL;

    state = seed;
    if (draw(8) == 0)
        return LLVMFuzzerMutate(data, size, room);
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    for (wanted = draw((uint32_t)lines); wanted > 0; wanted--)
        from = (size_t)((const uint8_t *)memchr(data + from, '\n', size - from) - data) + 1;
    for (to = from; to < size && data[to] != '\n'; to++)
        ;
    json = json_loadb((const char *)data + from, to - from, JSON_REJECT_DUPLICATES, NULL);
    if (json != NULL) {
        for (unsigned n = 1 + draw(3); n > 0; n--)
            mutate(json);
        text = json_dumps(json, JSON_COMPACT);
    }
    if (text != NULL)
        new_size = put_line(data, size, room, from, to, text);
    free(text);
    json_decref(json);
    return new_size != 0 ? new_size : LLVMFuzzerMutate(data, size, room);
}
