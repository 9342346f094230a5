/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <doca_dev.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "platform.h"
#include "removal.h"

enum {
    QUEUE_DEPTH = 1024,
    QUEUE_FULL = QUEUE_DEPTH / 2, /* time to empty it */
    WAIT_US = 10000,
    WAITS = 500,                  /* of WAIT_US without progress: then hardware hangs */
    ACTION_BYTES = 128,           /* of memory per entry with actions */
};

static void on_entry(struct doca_flow_pipe_entry *entry, uint16_t queue, enum doca_flow_entry_status status,
                     enum doca_flow_entry_op op, void *context)
{
    struct flow_port *port = context;

    bool refused = status != DOCA_FLOW_ENTRY_STATUS_SUCCESS;

    (void)queue;
    if (port == NULL || op == DOCA_FLOW_ENTRY_OP_AGED)
        return;
    /* Entries that go with their pipe may be called back too. Nobody counted them, and nobody waits. */
    if (op == DOCA_FLOW_ENTRY_OP_DEL && (port->removals == NULL || !removals_report(port->removals, entry, refused)))
        return;
    port->outstanding--;
    if (refused && op != DOCA_FLOW_ENTRY_OP_DEL)
        port->failed++;
}

static bool complete(struct flow_port *port, struct fault *fault)
{
    unsigned idle = 0;

    while (port->outstanding > 0 && idle < WAITS) {
        int before = port->outstanding;
        /* As many as are outstanding: with more, or with 0, the library waits until the timeout. */
        doca_error_t result = doca_flow_entries_process(port->port, 0, WAIT_US, (uint32_t)port->outstanding);

        if (result != DOCA_SUCCESS)
            return fault_doca(fault, result, "completing operations of port %s", port->name);
        idle = port->outstanding < before ? 0 : idle + 1;
    }
    return true;
}

bool flow_wait(struct flow_port *port, struct fault *fault)
{
    unsigned failed;

    if (!complete(port, fault))
        return false;
    failed = port->failed;
    port->failed = 0;
    if (failed > 0)
        return fault_set(fault, "hardware refused %u operations of port %s", failed, port->name);
    return port->outstanding <= 0 ||
           fault_set(fault, "%d operations of port %s do not complete", port->outstanding, port->name);
}

void flow_flush(struct flow_port *port)
{
    struct fault ignored = {0};

    (void)complete(port, &ignored);
}

void flow_queued_removal(struct flow_port *port)
{
    port->outstanding++;
    if (port->outstanding >= QUEUE_FULL)
        flow_flush(port);
}

bool flow_queued(struct flow_port *port, doca_error_t result, struct fault *fault, const char *what)
{
    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "%s", what);
    port->outstanding++;
    return port->outstanding < QUEUE_FULL || flow_wait(port, fault);
}

static bool init_library(struct fault *fault)
{
    struct doca_flow_cfg *cfg = NULL;
    doca_error_t result = doca_flow_cfg_create(&cfg);

    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "configuring DOCA Flow");
    result = doca_flow_cfg_set_mode_args(cfg, "vnf,hws");
    if (result == DOCA_SUCCESS)
        result = doca_flow_cfg_set_pipe_queues(cfg, 1);
    if (result == DOCA_SUCCESS)
        result = doca_flow_cfg_set_queue_depth(cfg, QUEUE_DEPTH);
    if (result == DOCA_SUCCESS)
        result = doca_flow_cfg_set_resource_mode(cfg, DOCA_FLOW_RESOURCE_MODE_PORT);
    if (result == DOCA_SUCCESS)
        result = doca_flow_cfg_set_cb_entry_process(cfg, on_entry);
    if (result == DOCA_SUCCESS)
        result = doca_flow_init(cfg);
    (void)doca_flow_cfg_destroy(cfg);
    return result == DOCA_SUCCESS || fault_doca(fault, result, "starting DOCA Flow");
}

/* Whether a device of the list goes by this name, as a network device or as an RDMA device. */
static bool has_name(const struct doca_devinfo *info, const char *name)
{
    char text[DOCA_DEVINFO_IFACE_NAME_SIZE];

    if (doca_devinfo_get_iface_name(info, text, sizeof(text)) == DOCA_SUCCESS && strcmp(text, name) == 0)
        return true;
    return doca_devinfo_get_ibdev_name(info, text, DOCA_DEVINFO_IBDEV_NAME_SIZE) == DOCA_SUCCESS &&
           strcmp(text, name) == 0;
}

static bool open_device(const char *name, struct doca_dev **dev, struct fault *fault)
{
    struct doca_devinfo **list = NULL;
    uint32_t count = 0, i;
    doca_error_t result = doca_devinfo_create_list(&list, &count);

    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "listing devices");
    for (i = 0; i < count && !has_name(list[i], name); i++)
        ;
    if (i == count)
        (void)fault_set(fault, "port %s: there is no device of this name among %u", name, count);
    else if ((result = doca_dev_open(list[i], dev)) != DOCA_SUCCESS)
        (void)fault_doca(fault, result, "opening the device of port %s", name);
    (void)doca_devinfo_destroy_list(list);
    return *dev != NULL;
}

bool flow_port_present(const struct flow_port *port)
{
    struct doca_devinfo **list = NULL;
    uint32_t count = 0, i;

    if (port->index != 0 && if_nametoindex(port->name) != port->index)
        return false;
    if (doca_devinfo_create_list(&list, &count) != DOCA_SUCCESS)
        return false;
    for (i = 0; i < count && !has_name(list[i], port->name); i++)
        ;
    (void)doca_devinfo_destroy_list(list);
    return i < count;
}

static uint32_t action_memory(const struct budgets *budgets)
{
    uint64_t entries = 2ULL * budgets_slot_entries(budgets) + 2ULL * budgets_target_entries(budgets) + budgets->vips;
    uint64_t wanted = entries * ACTION_BYTES + 1024;
    uint32_t size = 64;

    while (size < wanted && size < 1U << 31)
        size *= 2;
    return size;
}

static bool start_port(struct flow_port *port, uint16_t number, const struct budgets *budgets, struct fault *fault)
{
    struct doca_flow_port_cfg *cfg = NULL;
    doca_error_t result = doca_flow_port_cfg_create(&cfg);

    if (result != DOCA_SUCCESS)
        return fault_doca(fault, result, "configuring port %s", port->name);
    result = doca_flow_port_cfg_set_port_id(cfg, number);
    if (result == DOCA_SUCCESS)
        result = doca_flow_port_cfg_set_dev(cfg, port->dev);
    if (result == DOCA_SUCCESS)
        result = doca_flow_port_cfg_set_actions_mem_size(cfg, action_memory(budgets));
    if (result == DOCA_SUCCESS)
        result = doca_flow_port_cfg_set_nr_resources(cfg, DOCA_FLOW_RESOURCE_COUNTER, budgets_counters(budgets));
    if (result == DOCA_SUCCESS && budgets->backends > 0)
        result = doca_flow_port_cfg_set_nr_resources(cfg, DOCA_FLOW_RESOURCE_ENCAP,
                                                     budgets_target_entries(budgets));
    if (result == DOCA_SUCCESS)
        result = doca_flow_port_start(cfg, &port->port);
    (void)doca_flow_port_cfg_destroy(cfg);
    return result == DOCA_SUCCESS || fault_doca(fault, result, "starting port %s", port->name);
}

bool flow_up(struct flow *flow, const struct program *program, struct fault *fault)
{
    const char *names[PORTS] = {program->in, program->out};
    doca_error_t result;

    memset(flow, 0, sizeof(*flow));
    if (!platform_up(fault))
        return false;
    for (uint16_t i = 0; i < PORTS; i++) {
        (void)snprintf(flow->ports[i].name, sizeof(flow->ports[i].name), "%s", names[i]);
        flow->ports[i].index = if_nametoindex(names[i]);
        if (!open_device(names[i], &flow->ports[i].dev, fault) ||
            !platform_add(flow->ports[i].dev, i, &flow->ports[i].mtu, fault))
            goto down;
    }
    flow->initialised = init_library(fault);
    if (!flow->initialised)
        goto down;
    for (uint16_t i = 0; i < PORTS; i++)
        if (!start_port(&flow->ports[i], i, &program->budgets, fault))
            goto down;
    result = doca_flow_port_pair(flow->ports[PORT_IN].port, flow->ports[PORT_OUT].port);
    if (result == DOCA_SUCCESS)
        result = doca_flow_port_pair(flow->ports[PORT_OUT].port, flow->ports[PORT_IN].port);
    if (result == DOCA_SUCCESS)
        return true;
    (void)fault_doca(fault, result, "pairing ports %s and %s", program->in, program->out);

down:
    flow_down(flow);
    return false;
}

void flow_down(struct flow *flow)
{
    for (unsigned i = PORTS; i-- > 0;)
        if (flow->ports[i].port != NULL)
            doca_flow_port_pipes_flush(flow->ports[i].port);
    for (unsigned i = PORTS; i-- > 0;)
        if (flow->ports[i].port != NULL)
            (void)doca_flow_port_stop(flow->ports[i].port);
    if (flow->initialised)
        doca_flow_destroy();
    platform_down(); /* DPDK's ports use the devices */
    for (unsigned i = PORTS; i-- > 0;)
        if (flow->ports[i].dev != NULL)
            (void)doca_dev_close(flow->ports[i].dev);
    memset(flow, 0, sizeof(*flow));
}
