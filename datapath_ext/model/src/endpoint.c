#include "endpoint.h"

#include <doca_log.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_ = 512 };

static bool promiscuous[PORTS_MAX]; /* by port number: DPDK's ports have it before flow ports are started */

bool endpoint_send(struct doca_flow_port *port, const uint8_t *frame, size_t length)
{
    const struct endpoint *endpoint = port->endpoint;

    if (endpoint == NULL)
        return true; /* the result of doca_flow_model_receive() is where it goes */
    if (endpoint->netdev != NULL)
        return netdev_send(endpoint->netdev, frame, length);
    return endpoint->out == NULL || pcap_write(endpoint->out, frame, length);
}

void endpoint_close(struct doca_flow_port *port)
{
    struct endpoint *endpoint;

    model_lock();
    endpoint = port->endpoint;
    port->endpoint = NULL;
    model_unlock();
    if (endpoint == NULL)
        return;
    netdev_close(endpoint->netdev);
    pcap_close(endpoint->in);
    pcap_close(endpoint->out);
    free(endpoint);
}

/* Gives the port its endpoint, or refuses: there is no such port, or it has one. */
static doca_error_t connect_port(uint16_t port_id, struct endpoint *endpoint)
{
    struct doca_flow_port *port;
    doca_error_t result = DOCA_SUCCESS;

    model_lock();
    port = port_find(port_id);
    if (port == NULL)
        result = refuse(DOCA_ERROR_INVALID_VALUE, "port %u was not started", port_id);
    else if (port->endpoint != NULL)
        result = refuse(DOCA_ERROR_ALREADY_EXIST, "port %u is connected already", port_id);
    else
        port->endpoint = endpoint;
    model_unlock();
    return result;
}

doca_error_t doca_flow_model_attach_pcap(uint16_t port_id, const char *in, const char *out)
{
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    doca_error_t result = DOCA_SUCCESS;

    if (endpoint == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an endpoint");
    if (in != NULL) {
        endpoint->in = pcap_open_in(in);
        result = endpoint->in != NULL ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED;
    }
    if (result == DOCA_SUCCESS && out != NULL) {
        endpoint->out = pcap_open_out(out);
        result = endpoint->out != NULL ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED;
    }
    if (result == DOCA_SUCCESS)
        result = connect_port(port_id, endpoint);
    if (result != DOCA_SUCCESS) {
        pcap_close(endpoint->in);
        pcap_close(endpoint->out);
        free(endpoint);
    }
    return result;
}

doca_error_t doca_flow_model_attach_netdev(uint16_t port_id, const char *name)
{
    struct endpoint *endpoint;
    doca_error_t result = DOCA_ERROR_UNKNOWN;
    bool on;

    if (name == NULL || port_id >= PORTS_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "attach_netdev without a name, or to port %u", port_id);
    model_lock();
    on = promiscuous[port_id];
    model_unlock();
    endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an endpoint");
    endpoint->netdev = netdev_open(name, port_id, on, &result);
    if (endpoint->netdev != NULL)
        result = connect_port(port_id, endpoint);
    if (result != DOCA_SUCCESS) {
        netdev_close(endpoint->netdev);
        free(endpoint);
    }
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
    if (port != NULL && port->endpoint != NULL && port->endpoint->netdev != NULL &&
        !netdev_set_promiscuous(port->endpoint->netdev, on))
        result = refuse(DOCA_ERROR_OPERATING_SYSTEM, "promiscuous mode of port %u: %s", port_id, strerror(errno));
    else
        promiscuous[port_id] = on;
    model_unlock();
    return result;
}

static doca_error_t replay_port(struct doca_flow_port *port, uint8_t *frame, size_t *count)
{
    for (;;) {
        struct doca_flow_model_result result;
        doca_error_t code;
        size_t length;

        if (!pcap_read(port->endpoint->in, frame, FRAME_MAX, &length))
            return DOCA_ERROR_IO_FAILED;
        if (length == 0)
            return DOCA_SUCCESS;
        code = doca_flow_model_receive(port->cfg.id, frame, length, &result);
        if (code != DOCA_SUCCESS)
            return code;
        doca_flow_model_result_free(&result);
        (*count)++;
    }
}

doca_error_t doca_flow_model_replay(size_t *frames)
{
    uint8_t *frame = malloc(FRAME_MAX);
    doca_error_t result = DOCA_SUCCESS;
    size_t count = 0;

    if (frame == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a frame");
    model_lock();
    for (unsigned i = 0; i < PORTS_MAX && result == DOCA_SUCCESS; i++)
        if (model.ports[i] != NULL && model.ports[i]->endpoint != NULL && model.ports[i]->endpoint->in != NULL)
            result = replay_port(model.ports[i], frame, &count);
    model_unlock();
    free(frame);
    if (frames != NULL)
        *frames = count;
    return result;
}

/* "netdev:NAME" or "pcap:IN:OUT". */
static doca_error_t attach(uint16_t port_id, char *spec)
{
    char *out;

    if (strncmp(spec, "netdev:", 7) == 0)
        return doca_flow_model_attach_netdev(port_id, spec + 7);
    if (strncmp(spec, "pcap:", 5) != 0)
        return refuse(DOCA_ERROR_INVALID_VALUE, "DOCA_FLOW_MODEL_PORTS: \"%s\"; netdev:NAME or pcap:IN:OUT", spec);
    spec += 5;
    out = strchr(spec, ':');
    if (out != NULL)
        *out++ = '\0';
    return doca_flow_model_attach_pcap(port_id, *spec != '\0' ? spec : NULL,
                                       out != NULL && *out != '\0' ? out : NULL);
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
