/* SPDX-License-Identifier: Apache-2.0 */
/* Packets handed over in a test, or by a network device. */
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

static void account(struct doca_flow_port *port, const struct doca_flow_model_result *result)
{
    port->stats.received++;
    for (size_t i = 0; i < result->count; i++) {
        const struct doca_flow_model_output *output = &result->outputs[i];
        struct doca_flow_port *target;

        switch (output->verdict) {
        case DOCA_FLOW_MODEL_SENT:
            target = port_find(output->port_id);
            if (endpoint_send(target, output->frame, output->length))
                target->stats.sent++;
            else
                target->stats.not_sent++;
            break;
        case DOCA_FLOW_MODEL_KERNEL:
        case DOCA_FLOW_MODEL_QUEUED:
            port->stats.handed_over++;
            break;
        case DOCA_FLOW_MODEL_DROPPED:
        case DOCA_FLOW_MODEL_MISSED:
        case DOCA_FLOW_MODEL_UNPROVEN:
        case DOCA_FLOW_MODEL_BROKEN:
        default:
            port->stats.dropped++;
            break;
        }
    }
}

doca_error_t doca_flow_model_receive(uint16_t port_id, const uint8_t *frame, size_t length,
                                     struct doca_flow_model_result *result)
{
    struct doca_flow_port *port;
    struct packet *packet;
    doca_error_t code = DOCA_SUCCESS;

    if (result == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "receive without a place for the result");
    memset(result, 0, sizeof(*result));
    if (frame == NULL || length == 0 || length > FRAME_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "receive of %zu bytes; 1 to %d", length, FRAME_MAX);
    model_lock();
    port = port_find(port_id);
    if (port == NULL) {
        code = refuse(DOCA_ERROR_INVALID_VALUE, "receive on port %u, which was not started", port_id);
        goto unlock;
    }
    packet = packet_create(frame, length);
    if (packet == NULL) {
        code = refuse(DOCA_ERROR_NO_MEMORY, "no memory for a packet");
        goto unlock;
    }
    run_packet(port, packet, result);
    account(port, result);
unlock:
    model_unlock();
    return code;
}

void doca_flow_model_result_free(struct doca_flow_model_result *result)
{
    if (result == NULL)
        return;
    for (size_t i = 0; i < result->count; i++)
        free(result->outputs[i].frame);
    free(result->outputs);
    memset(result, 0, sizeof(*result));
}

const char *doca_flow_model_verdict_name(enum doca_flow_model_verdict verdict)
{
    static const char *const names[] = {"sent", "dropped", "kernel", "queued", "missed", "unproven", "broken"};

    return (unsigned)verdict < sizeof(names) / sizeof(names[0]) ? names[verdict] : "?";
}

doca_error_t doca_flow_model_port_stats(uint16_t port_id, struct doca_flow_model_port_stats *stats)
{
    struct doca_flow_port *port;
    doca_error_t result = DOCA_SUCCESS;
    uint64_t lost, not_sent;

    if (stats == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "port_stats without a place for the result");
    model_lock();
    port = port_find(port_id);
    if (port != NULL) {
        if (port->netdev != NULL) {
            netdev_losses(port->netdev, &lost, &not_sent);
            port->stats.lost += lost;
            port->stats.not_sent += not_sent;
            port->stats.sent -= not_sent;
        }
        *stats = port->stats;
    } else {
        result = refuse(DOCA_ERROR_INVALID_VALUE, "port_stats of port %u, which was not started", port_id);
    }
    model_unlock();
    return result;
}
