/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured: one program and its packets per way to select, to forward, and direction. */
#ifndef BENCH_MODES_H_
#define BENCH_MODES_H_

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACKETS = 1024, PACKET_MAX = 160, DEVICE_IN = 0, DEVICE_OUT = 1 };

enum direction {
    QUERIES,
    ANSWERS, /* from the backends back to the client */
    BOTH,    /* queries, and an answer to each; only on devices */
};

struct mode {
    const char *name, *select, *forward;
    unsigned family, backend_family; /* of the VIP, and of its backends */
    enum direction direction;
};

extern const struct mode modes[];
extern const size_t mode_count;

/* A program of this many VIPs, with 64 slots and 4 backends each, on these two devices. */
json_t *mode_program(const struct mode *mode, unsigned vips, const char *const devices[2]);

struct packets {
    uint16_t port; /* where they come in */
    size_t length;
    uint8_t bytes[PACKETS][PACKET_MAX];
};
/* DNS queries to the last VIP from many clients, or answers to them. */
void mode_packets(const struct mode *mode, bool answers, unsigned vips, struct packets *packets);

#endif
