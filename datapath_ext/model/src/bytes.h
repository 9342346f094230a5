/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in network order, runs of bits, Internet checksums. */
#ifndef MODEL_BYTES_H_
#define MODEL_BYTES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint16_t be16_get(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t be32_get(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void be16_put(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void be32_put(uint8_t *at, uint32_t value)
{
    be16_put(at, (uint16_t)(value >> 16));
    be16_put(at + 2, (uint16_t)value);
}

/* Whether all `size` bytes are `byte`. */
bool bytes_are(const void *data, size_t size, uint8_t byte);

/* Bits from..from+width of `source`, counted from the most significant of the first byte, as a right-aligned number
 * of `size` bytes, and back. Runs that are not whole bytes are at most 32 bits wide. */
void bits_read(const uint8_t *source, unsigned from, unsigned width, uint8_t *number, size_t size);
void bits_write(uint8_t *target, unsigned from, unsigned width, const uint8_t *number, size_t size);

/* Copies `width` bits between numbers of `size` bytes; offsets count from the least significant bit. */
void number_copy(uint8_t *target, size_t target_size, unsigned target_bit, const uint8_t *source, size_t source_size,
                 unsigned source_bit, unsigned width);
/* target[bit..bit+width] += source, modulo 2^width. */
void number_add(uint8_t *target, size_t target_size, unsigned bit, const uint8_t *source, size_t source_size,
                unsigned source_bit, unsigned width);
/* <0, 0, >0 as a is below, equal to or above b in `width` bits. */
int number_compare(const uint8_t *a, size_t a_size, unsigned a_bit, const uint8_t *b, size_t b_size, unsigned b_bit,
                   unsigned width);

/* One's complement sum of 16-bit words, to be continued; odd lengths are padded with a zero byte. */
uint32_t sum_add(uint32_t sum, const uint8_t *data, size_t length);
uint16_t sum_fold(uint32_t sum);
/* The checksum that was `checksum` before words that summed to `before` came to sum to `after`. */
uint16_t checksum_update(uint16_t checksum, uint32_t before, uint32_t after);

#endif
