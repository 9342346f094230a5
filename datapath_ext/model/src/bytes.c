/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes.h"

#include <string.h>

bool bytes_are(const void *data, size_t size, uint8_t byte)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

static unsigned bit_at(const uint8_t *source, unsigned bit)
{
    return (unsigned)source[bit / 8] >> (7 - bit % 8) & 1U;
}

static void bit_put(uint8_t *target, unsigned bit, unsigned value)
{
    uint8_t mask = (uint8_t)(1U << (7 - bit % 8));

    target[bit / 8] = (uint8_t)(value ? target[bit / 8] | mask : target[bit / 8] & ~mask);
}

void bits_read(const uint8_t *source, unsigned from, unsigned width, uint8_t *number, size_t size)
{
    if (from % 8 == 0 && width == size * 8) {
        memcpy(number, source + from / 8, size);
        return;
    }
    memset(number, 0, size);
    for (unsigned i = 0; i < width; i++)
        bit_put(number, (unsigned)size * 8 - width + i, bit_at(source, from + i));
}

void bits_write(uint8_t *target, unsigned from, unsigned width, const uint8_t *number, size_t size)
{
    if (from % 8 == 0 && width == size * 8) {
        memcpy(target + from / 8, number, size);
        return;
    }
    for (unsigned i = 0; i < width; i++)
        bit_put(target, from + i, bit_at(number, (unsigned)size * 8 - width + i));
}

/* The bit of a number of `size` bytes that is worth 2^bit; 0 beyond its end. */
static unsigned worth(const uint8_t *number, size_t size, unsigned bit)
{
    return bit < size * 8 ? (unsigned)number[size - 1 - bit / 8] >> (bit % 8) & 1U : 0;
}

static void worth_put(uint8_t *number, size_t size, unsigned bit, unsigned value)
{
    uint8_t *byte = &number[size - 1 - bit / 8];
    uint8_t mask = (uint8_t)(1U << (bit % 8));

    *byte = (uint8_t)(value ? *byte | mask : *byte & ~mask);
}

void number_copy(uint8_t *target, size_t target_size, unsigned target_bit, const uint8_t *source, size_t source_size,
                 unsigned source_bit, unsigned width)
{
    for (unsigned i = 0; i < width && target_bit + i < target_size * 8; i++)
        worth_put(target, target_size, target_bit + i, worth(source, source_size, source_bit + i));
}

void number_add(uint8_t *target, size_t target_size, unsigned bit, const uint8_t *source, size_t source_size,
                unsigned source_bit, unsigned width)
{
    unsigned carry = 0;

    for (unsigned i = 0; i < width && bit + i < target_size * 8; i++) {
        unsigned sum = worth(target, target_size, bit + i) + worth(source, source_size, source_bit + i) + carry;

        worth_put(target, target_size, bit + i, sum & 1U);
        carry = sum >> 1;
    }
}

int number_compare(const uint8_t *a, size_t a_size, unsigned a_bit, const uint8_t *b, size_t b_size, unsigned b_bit,
                   unsigned width)
{
    for (unsigned i = width; i-- > 0;) {
        int difference = (int)worth(a, a_size, a_bit + i) - (int)worth(b, b_size, b_bit + i);

        if (difference != 0)
            return difference;
    }
    return 0;
}

uint32_t sum_add(uint32_t sum, const uint8_t *data, size_t length)
{
    uint64_t wide = sum;

    /* 2^16 is 1 in this sum, so 32 bits at a time come to the same. */
    for (; length > 3; data += 4, length -= 4)
        wide += be32_get(data);
    if (length > 1)
        wide += be16_get(data);
    if (length % 2 == 1)
        wide += (uint64_t)data[length - 1] << 8;
    while (wide > 0xffff)
        wide = (wide & 0xffff) + (wide >> 16);
    return (uint32_t)wide;
}

uint16_t sum_fold(uint32_t sum)
{
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

uint16_t checksum_update(uint16_t checksum, uint32_t before, uint32_t after)
{
    uint32_t sum = (uint16_t)~checksum;

    sum += (uint16_t)~sum_fold(before);
    sum += sum_fold(after);
    return (uint16_t)~sum_fold(sum);
}
