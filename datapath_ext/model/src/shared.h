/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that entries share by number, and the budgets that bound all resources. */
#ifndef MODEL_SHARED_H_
#define MODEL_SHARED_H_

#include <doca_error.h>
#include <doca_flow.h>

#include "core.h"
#include "meter.h"
#include "tunnel.h"

struct shared_resource {
    bool configured;
    struct doca_flow_shared_resource_cfg cfg;
    struct counter counter;
    struct meter meter;
};

struct shared_table {
    struct shared_resource **slots[SHARED_RESOURCE_KINDS];
    uint32_t count[SHARED_RESOURCE_KINDS];
};

/* Takes one resource of the port (of the library, in system mode), or refuses with DRIVER. */
doca_error_t budget_take(struct doca_flow_port *port, enum doca_flow_resource type);
void budget_give(struct doca_flow_port *port, enum doca_flow_resource type);

/* A configured resource, or NULL with a reason. */
struct shared_resource *shared_find(struct doca_flow_port *port, enum doca_flow_shared_resource_type type, uint32_t id);
doca_error_t shared_encap(struct doca_flow_port *port, uint32_t id, struct encap_header *header);
void shared_clear(struct shared_table *table);

#endif
