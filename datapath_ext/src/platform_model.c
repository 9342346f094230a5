/* The model has ports without DPDK. */
#include "platform.h"

bool platform_up(struct fault *fault)
{
    (void)fault;
    return true;
}

bool platform_add(struct doca_dev *dev, uint16_t port_id, struct fault *fault)
{
    (void)dev;
    (void)port_id;
    (void)fault;
    return true;
}

void platform_down(void)
{
}
