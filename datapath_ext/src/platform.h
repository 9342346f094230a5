/* What the SDK needs below DOCA Flow, and the model does not: DPDK's environment and its Ethernet ports. */
#ifndef PLATFORM_H_
#define PLATFORM_H_

#include <stdint.h>

#include "fault.h"

struct doca_dev;

bool platform_up(struct fault *fault);
/* Makes the device the port of this number. */
bool platform_add(struct doca_dev *dev, uint16_t port_id, struct fault *fault);
void platform_down(void);

#endif
