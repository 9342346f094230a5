/* SPDX-License-Identifier: Apache-2.0 */
/* Network devices, which ports can be connected to. */
#ifndef MODEL_ENDPOINT_H_
#define MODEL_ENDPOINT_H_

#include "objects.h"

struct netdev;

/* netdev.c. Open without the lock; it starts a thread. NULL with a reason, and its code in *result. */
struct netdev *netdev_open(const char *name, uint16_t port_id, bool promiscuous, doca_error_t *result);
bool netdev_set_promiscuous(struct netdev *netdev, bool on);
/* Without the lock: waits for the thread. */
void netdev_close(struct netdev *netdev);
/* At once, or, from a thread of a device, with the next frames; what the device did not take then is in its losses. */
bool netdev_send(struct netdev *netdev, const uint8_t *frame, size_t length);
/* Since the last call: frames that the device's ring had no room for, and frames that it did not take after all. */
void netdev_losses(struct netdev *netdev, uint64_t *lost, uint64_t *not_sent);

#endif
