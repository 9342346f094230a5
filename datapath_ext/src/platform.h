/* SPDX-License-Identifier: Apache-2.0 */
/* What the SDK needs below DOCA Flow, and the model does not: DPDK's environment and its Ethernet ports. */
#ifndef PLATFORM_H_
#define PLATFORM_H_

#include <stdint.h>

#include "fault.h"

struct doca_dev;

enum { ANY_CORE = -1 };

/* Before platform_up(): the processor core of DPDK's one thread, which is the caller of platform_up(); ANY_CORE, which it
 * is at first: whichever that may run on. */
void platform_set_core(int core);
bool platform_up(struct fault *fault);
/* Makes the device the port of this number, one that takes in frames to any MAC address. *mtu: the device's, in bytes,
 * which stays as it is; 0: not known. */
bool platform_add(struct doca_dev *dev, uint16_t port_id, unsigned *mtu, struct fault *fault);
void platform_down(void);

#endif
