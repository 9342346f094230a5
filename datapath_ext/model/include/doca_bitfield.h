/* SPDX-License-Identifier: Apache-2.0 */
/* Byte order and masks as constant expressions, so that they can stand in static initialisers. */
#ifndef DOCA_BITFIELD_H_
#define DOCA_BITFIELD_H_

#include <arpa/inet.h>

#include <doca_types.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DOCA_SWAP16_(x) ((uint16_t)((((uint16_t)(x)&0x00ffU) << 8) | (((uint16_t)(x)&0xff00U) >> 8)))
#define DOCA_SWAP32_(x)                                                                         \
    ((uint32_t)((((uint32_t)(x)&0x000000ffU) << 24) | (((uint32_t)(x)&0x0000ff00U) << 8) |      \
                (((uint32_t)(x)&0x00ff0000U) >> 8) | (((uint32_t)(x)&0xff000000U) >> 24)))
#else
#define DOCA_SWAP16_(x) ((uint16_t)(x))
#define DOCA_SWAP32_(x) ((uint32_t)(x))
#endif

#define DOCA_HTOBE16(x) DOCA_SWAP16_(x)
#define DOCA_HTOBE32(x) DOCA_SWAP32_(x)
#define DOCA_BETOH16(x) DOCA_SWAP16_(x)
#define DOCA_BETOH32(x) DOCA_SWAP32_(x)

/* Bits high..low set, both included. */
#define DOCA_U8_GENMASK(high, low) ((uint8_t)((0xffU >> (7 - (high))) & (0xffU << (low))))
#define DOCA_U16_GENMASK(high, low) ((uint16_t)((0xffffU >> (15 - (high))) & (0xffffU << (low))))
#define DOCA_U32_GENMASK(high, low) ((uint32_t)((0xffffffffU >> (31 - (high))) & (0xffffffffU << (low))))
#define DOCA_U64_GENMASK(high, low) ((uint64_t)((~0ULL >> (63 - (high))) & (~0ULL << (low))))
#define DOCA_BE16_GENMASK(high, low) DOCA_HTOBE16(DOCA_U16_GENMASK(high, low))
#define DOCA_BE32_GENMASK(high, low) DOCA_HTOBE32(DOCA_U32_GENMASK(high, low))

/* A run of bits of a word in network order, given by its mask (in network order too): read as a host number, and the
 * word that has a host number there. */
#define DOCA_LOWEST_BIT_(mask) ((uint32_t)(mask) & (~(uint32_t)(mask) + 1U))
#define DOCA_BE32_GET(word, mask) \
    ((DOCA_BETOH32(word) & DOCA_BETOH32(mask)) / DOCA_LOWEST_BIT_(DOCA_BETOH32(mask)))
#define DOCA_BE32_SET(mask, value) \
    DOCA_HTOBE32(((uint32_t)(value)*DOCA_LOWEST_BIT_(DOCA_BETOH32(mask))) & DOCA_BETOH32(mask))

#endif
