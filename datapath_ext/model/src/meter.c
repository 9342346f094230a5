/* SPDX-License-Identifier: Apache-2.0 */
#include "meter.h"

#include <string.h>

#include "core.h"

void counter_add(struct counter *counter, size_t bytes)
{
    counter->bytes += bytes;
    counter->packets++;
}

void counter_query(const struct counter *counter, struct doca_flow_resource_query *query)
{
    query->counter.total_bytes = counter->bytes;
    query->counter.total_pkts = counter->packets;
}

void meter_setup(struct meter *meter, const struct doca_flow_resource_meter_cfg *cfg)
{
    meter->cfg = *cfg;
    meter->configured = true;
    meter->filled_ns = model_now_ns();
    meter->committed = (double)cfg->cbs;
    meter->excess = (double)cfg->rfc2697.ebs;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* RFC 2697: one rate fills the committed bucket, what that does not hold the excess one. */
static void refill(struct meter *meter)
{
    const struct doca_flow_resource_meter_cfg *cfg = &meter->cfg;
    uint64_t now = model_now_ns();
    double committed = meter->committed + (double)(now - meter->filled_ns) / 1e9 * (double)cfg->cir;

    meter->filled_ns = now;
    meter->committed = least(committed, (double)cfg->cbs);
    meter->excess = least(meter->excess + committed - meter->committed, (double)cfg->rfc2697.ebs);
}

enum doca_flow_meter_color meter_color(struct meter *meter, size_t bytes)
{
    double size = meter->cfg.limit_type == DOCA_FLOW_METER_LIMIT_TYPE_PACKETS ? 1.0 : (double)bytes;

    refill(meter);
    if (meter->committed >= size) {
        meter->committed -= size;
        return DOCA_FLOW_METER_COLOR_GREEN;
    }
    if (meter->excess >= size) {
        meter->excess -= size;
        return DOCA_FLOW_METER_COLOR_YELLOW;
    }
    return DOCA_FLOW_METER_COLOR_RED;
}
