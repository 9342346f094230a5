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
    meter->excess = cfg->alg == DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697   ? (double)cfg->rfc2697.ebs
                    : cfg->alg == DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2698 ? (double)cfg->rfc2698.pbs
                                                                         : (double)cfg->rfc4115.ebs;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* RFC 2697: one rate fills the committed bucket, what that does not hold the excess one. RFC 2698: two rates, the
 * peak bucket judges all. RFC 4115: two rates, the second for what exceeds the first. */
static void refill(struct meter *meter)
{
    const struct doca_flow_resource_meter_cfg *cfg = &meter->cfg;
    uint64_t now = model_now_ns();
    double seconds = (double)(now - meter->filled_ns) / 1e9, committed;

    meter->filled_ns = now;
    committed = meter->committed + seconds * (double)cfg->cir;
    meter->committed = least(committed, (double)cfg->cbs);
    switch (cfg->alg) {
    case DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697:
        meter->excess = least(meter->excess + committed - meter->committed, (double)cfg->rfc2697.ebs);
        break;
    case DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2698:
        meter->excess = least(meter->excess + seconds * (double)cfg->rfc2698.pir, (double)cfg->rfc2698.pbs);
        break;
    case DOCA_FLOW_METER_ALGORITHM_TYPE_RFC4115:
    default:
        meter->excess = least(meter->excess + seconds * (double)cfg->rfc4115.eir, (double)cfg->rfc4115.ebs);
        break;
    }
}

enum doca_flow_meter_color meter_color(struct meter *meter, size_t bytes)
{
    double size = meter->cfg.limit_type == DOCA_FLOW_METER_LIMIT_TYPE_PACKETS ? 1.0 : (double)bytes;
    bool peak = meter->cfg.alg == DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2698;

    refill(meter);
    if (peak && meter->excess < size)
        return DOCA_FLOW_METER_COLOR_RED;
    if (peak)
        meter->excess -= size;
    if (meter->committed >= size) {
        meter->committed -= size;
        return DOCA_FLOW_METER_COLOR_GREEN;
    }
    if (peak)
        return DOCA_FLOW_METER_COLOR_YELLOW;
    if (meter->excess >= size) {
        meter->excess -= size;
        return DOCA_FLOW_METER_COLOR_YELLOW;
    }
    return DOCA_FLOW_METER_COLOR_RED;
}
