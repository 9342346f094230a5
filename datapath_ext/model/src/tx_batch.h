/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to leave together: a thread that takes frames from a ring sends what they became with one call. */
#ifndef MODEL_TX_BATCH_H_
#define MODEL_TX_BATCH_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What frames are sent by. Frames that wait hold it; who lets go of it last releases it. */
struct tx_device {
    int socket;
    atomic_uint users;
    atomic_ullong not_sent; /* frames that it did not take after all */
    void (*release)(struct tx_device *device);
};

/* One user less. */
void tx_device_put(struct tx_device *device);

struct tx_batch;

/* NULL without memory. */
struct tx_batch *tx_batch_create(void);
void tx_batch_destroy(struct tx_batch *batch);

/* Keeps a copy, and the device until it is sent. False if there is no room. */
bool tx_batch_add(struct tx_batch *batch, struct tx_device *to, const uint8_t *frame, size_t length);
/* Sends all. Without the model's lock, so that others can go on. */
void tx_batch_flush(struct tx_batch *batch);

#endif
