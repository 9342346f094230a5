/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include <doca_log.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_ = 512 };

static bool promiscuous[PORTS_MAX]; /* by port number: DPDK's ports have it before flow ports are started */

bool endpoint_send(struct doca_flow_port *port, const uint8_t *frame, size_t length)
{
    /* Without a device the result of doca_flow_model_receive() is where it goes. */
    return port->netdev == NULL || netdev_send(port->netdev, frame, length);
}

void endpoint_close(struct doca_flow_port *port)
{
    struct netdev *netdev;

    model_lock();
    netdev = port->netdev;
    port->netdev = NULL;
    model_unlock();
    netdev_close(netdev);
}

/* Gives the port its device, or refuses: there is no such port, or it has one. */
static doca_error_t connect_port(uint16_t port_id, struct netdev *netdev)
{
    struct doca_flow_port *port;
    doca_error_t result = DOCA_SUCCESS;

    model_lock();
    port = port_find(port_id);
    if (port == NULL)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "port %u was not started", port_id);
    else if (port->netdev != NULL)
        result = refuse(DOCA_ERROR_ALREADY_EXIST, "port %u is connected already", port_id);
    else
        port->netdev = netdev;
    model_unlock();
    return result;
}

doca_error_t doca_flow_model_attach_netdev(uint16_t port_id, const char *name)
{
    struct netdev *netdev;
    doca_error_t result = DOCA_ERROR_UNKNOWN;
    bool on;

    if (name == NULL || port_id >= PORTS_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "attach_netdev without a name, or to port %u", port_id);
    model_lock();
    on = promiscuous[port_id];
    model_unlock();
    netdev = netdev_open(name, port_id, on, &result);
    if (netdev != NULL)
        result = connect_port(port_id, netdev);
    if (result != DOCA_SUCCESS)
        netdev_close(netdev);
    return result;
}

doca_error_t doca_flow_model_set_promiscuous(uint16_t port_id, bool on)
{
    const struct doca_flow_port *port;
    doca_error_t result = DOCA_SUCCESS;

    if (port_id >= PORTS_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "set_promiscuous of port %u", port_id);
    model_lock();
    port = port_find(port_id);
    if (port != NULL && port->netdev != NULL && !netdev_set_promiscuous(port->netdev, on))
        result = refuse(DOCA_ERROR_OPERATING_SYSTEM, "promiscuous mode of port %u: %s", port_id, strerror(errno));
    else
        promiscuous[port_id] = on;
    model_unlock();
    return result;
}

/* "netdev:NAME". */
static doca_error_t attach(uint16_t port_id, const char *spec)
{
    if (strncmp(spec, "netdev:", 7) != 0)
        return refuse(DOCA_ERROR_INVALID_VALUE, "DOCA_FLOW_MODEL_PORTS: \"%s\"; netdev:NAME", spec);
    return doca_flow_model_attach_netdev(port_id, spec + 7);
}

void endpoint_attach_configured(struct doca_flow_port *port)
{
    const char *spec = getenv("DOCA_FLOW_MODEL_PORTS");

    while (spec != NULL && *spec != '\0') {
        size_t length = strcspn(spec, " ");
        char text[PATH_MAX_], *end;
        unsigned long id = strtoul(spec, &end, 10);

        if (end != spec && *end == '=' && id == port->cfg.id && length < sizeof(text)) {
            size_t skip = (size_t)(end - spec) + 1;

            memcpy(text, spec + skip, length - skip);
            text[length - skip] = '\0';
            /* The port is started already, so all that can be done is to say so. */
            if (attach(port->cfg.id, text) != DOCA_SUCCESS)
                note(DOCA_LOG_LEVEL_ERROR, "port %u is not connected: %s", port->cfg.id, doca_flow_model_reason());
        }
        spec += length + strspn(spec + length, " ");
    }
}
