/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and token buckets. */
#ifndef MODEL_METER_H_
#define MODEL_METER_H_

#include <doca_flow.h>

struct counter {
    uint64_t bytes, packets;
};

/* Bucket levels are in bytes or packets, as the limit is. */
struct meter {
    struct doca_flow_resource_meter_cfg cfg;
    bool configured;
    uint64_t filled_ns;
    double committed, excess;
};

void counter_add(struct counter *counter, size_t bytes);
void counter_query(const struct counter *counter, struct doca_flow_resource_query *query);
void meter_setup(struct meter *meter, const struct doca_flow_resource_meter_cfg *cfg);
enum doca_flow_meter_color meter_color(struct meter *meter, size_t bytes);

#endif
