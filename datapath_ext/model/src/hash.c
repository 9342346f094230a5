/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of HASH pipes. For a key of one 32-bit word it is what public test vectors show. How the words of longer
 * keys lie is a prediction, from the order of fields in the hardware's header layout. */
#include <stddef.h>
#include <string.h>

#include "bytes.h"
#include "objects.h"

enum { WORDS_MAX = 128, TAG_SHORT = 32, TAG_LONG = 44, SHORT_WORDS = 6, LONG_WORDS = 11 };

static uint32_t crc32_reflected(const uint8_t *data, size_t length)
{
    /* What four bits that leave at the low end do to the rest: polynomial 0xEDB88320. */
    static const uint32_t nibbles[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
                                         0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                         0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    uint32_t crc = 0;
    size_t i = 0;

    while (i < length && data[i] == 0) /* changes nothing yet */
        i++;
    for (; i < length; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return crc;
}

static const char *const layout[] = {
    "eth.dst_mac", "eth.src_mac", "eth_vlan0.tci", "eth_vlan1.tci", "eth.type",       "udp.src_port",
    "tcp.src_port", "transport.src_port", "udp.dst_port", "tcp.dst_port", "transport.dst_port", "ipv4.src_ip",
    "ipv4.dst_ip", "ipv6.dst_ip", "ipv6.src_ip", "ipv6.flow_label", "random.value",
};

enum { RANKS = sizeof(layout) / sizeof(layout[0]) };

unsigned hash_rank(const struct field *field)
{
    for (unsigned i = 0; i < RANKS; i++)
        if (field->name != NULL && strcmp(field->name, layout[i]) == 0)
            return i;
    return RANKS;
}

/* Appends the field's words; ports share one, and what is shorter than a word is its upper part if it is a port, a
 * random number or the end of a MAC address. */
static size_t put_words(const struct match_part *part, const uint8_t *key, uint32_t *words, size_t count,
                        size_t *ports)
{
    const struct field *field = part->place.field;
    const uint8_t *value = key + part->at;
    size_t left = field->size;

    if (field->header == HEADER_PORTS) {
        if (*ports == SIZE_MAX) {
            *ports = count;
            words[count++] = 0;
        }
        words[*ports] |= (uint32_t)be16_get(value) << (field->bit == 0 ? 16 : 0);
        return count;
    }
    for (; left >= 4 && count < WORDS_MAX; left -= 4, value += 4)
        words[count++] = be32_get(value);
    if (left > 0 && count < WORDS_MAX) {
        bool upper = left < field->size || field->header == HEADER_PARSER;
        uint32_t word = 0;

        for (size_t i = 0; i < left; i++)
            word = word << 8 | value[i];
        words[count++] = upper ? word << (32 - 8 * left) : word;
    }
    return count;
}

/* The least rank there is from this one on; above RANKS if there is none. */
static unsigned next_rank(const struct matcher *matcher, bool inner, unsigned from)
{
    unsigned least = RANKS + 1;

    for (size_t i = 0; i < matcher->count; i++) {
        const struct match_part *part = &matcher->parts[i];

        if ((part->place.section == SECTION_INNER) == inner && part->rank >= from && part->rank < least)
            least = part->rank;
    }
    return least;
}

static size_t key_words(const struct matcher *matcher, const uint8_t *key, uint32_t *words)
{
    size_t count = 0, ports[2] = {SIZE_MAX, SIZE_MAX};

    for (unsigned inner = 0; inner < 2; inner++)
        for (unsigned wanted = next_rank(matcher, inner == 1, 0); wanted <= RANKS;
             wanted = next_rank(matcher, inner == 1, wanted + 1))
            for (size_t i = 0; i < matcher->count; i++) {
                const struct match_part *part = &matcher->parts[i];

                if ((part->place.section == SECTION_INNER) == (inner == 1) && part->rank == wanted)
                    count = put_words(part, key, words, count, &ports[inner]);
            }
    return count;
}

uint32_t hash_key(const struct matcher *matcher, const uint8_t *key)
{
    uint32_t words[WORDS_MAX];
    uint8_t tag[TAG_LONG] = {0};
    size_t count = key_words(matcher, key, words), size = count <= SHORT_WORDS ? TAG_SHORT : TAG_LONG;
    uint32_t crc;

    for (size_t i = 0; i < count && i < LONG_WORDS; i++)
        be32_put(tag + (size == TAG_SHORT ? 20 : 40) - 4 * i, words[i]);
    crc = crc32_reflected(tag, size);
    return DOCA_SWAP32_(crc);
}

doca_error_t doca_flow_pipe_calc_hash(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint32_t *hash)
{
    uint8_t key[KEY_MAX];
    uint32_t words[WORDS_MAX];
    doca_error_t result = DOCA_SUCCESS;

    if (pipe == NULL || match == NULL || hash == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "pipe_calc_hash without a pipe, a match or a place for the hash");
    model_lock();
    if (pipe->cfg.type != DOCA_FLOW_PIPE_HASH || pipe->matcher.count == 0)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "pipe_calc_hash on pipe %s, which has no key", pipe->cfg.name);
    if (result == DOCA_SUCCESS && pipe->cfg.is_root)
        result = unproven("pipe_calc_hash on a root pipe; drivers refuse hash calculation there");
    if (result == DOCA_SUCCESS) {
        matcher_entry_key(&pipe->matcher, match, key);
        if (key_words(&pipe->matcher, key, words) > 1)
            result = unproven("pipe_calc_hash of a key of several words; only single words have test vectors");
    }
    if (result == DOCA_SUCCESS)
        *hash = hash_key(&pipe->matcher, key);
    model_unlock();
    return result;
}
