/* Frames that wait to leave together: a thread that takes frames from a ring sends what they became with one call. */
#ifndef MODEL_OUTBOX_H_
#define MODEL_OUTBOX_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netdev;
struct outbox;

/* NULL without memory. */
struct outbox *outbox_create(void);
void outbox_destroy(struct outbox *outbox);

/* Keeps a copy, and the device until it is sent. False if there is no room. */
bool outbox_put(struct outbox *outbox, struct netdev *to, const uint8_t *frame, size_t length);
/* Sends all. Without the model's lock, so that others can go on. */
void outbox_flush(struct outbox *outbox);

#endif
