/* SPDX-License-Identifier: Apache-2.0 */
/* What run_samples.py links with a sample: the frames of its description come in while it sleeps, as packets would come in
 * meanwhile, and DPDK's ports are stand-ins. DPDK's environment and buffers are its own.
 *
 * SAMPLE_FRAMES names a file of lines "PORT HEX", with a line "stage" after each stage; SAMPLE_RESULTS one to write to, a line
 * "VERDICT PORT HEX REASON" for each frame that comes out. SAMPLE_PORTS is the number of ports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ethdev_core.h>
#include <rte_mbuf.h>

#include <doca_flow_model.h>

enum { PORTS_MAX = 32, FRAME_MAX = 65535, WAITING_MAX = 4096, SHORT_WAIT = 2 };

struct waiting {
    uint16_t port, queue;
    uint32_t pkt_meta;
    uint8_t *frame;
    size_t length;
};

static struct waiting waiting[WAITING_MAX]; /* for queues of the program */
static size_t waits;
static struct rte_mempool *pools[PORTS_MAX];
static struct {
    uint16_t port, queue;
} queues[PORTS_MAX][RTE_MAX_QUEUES_PER_PORT];
static void *queue_data[PORTS_MAX][RTE_MAX_QUEUES_PER_PORT], *no_callbacks[RTE_MAX_QUEUES_PER_PORT];
static uint64_t now_ns = 1000000000000;
static FILE *frames, *results;

int __real_rte_eal_init(int argc, char **argv);
int __wrap_rte_eal_init(int argc, char **argv);
unsigned __wrap_sleep(unsigned seconds);
int __wrap_usleep(useconds_t microseconds);

static uint16_t port_count(void)
{
    const char *number = getenv("SAMPLE_PORTS");

    return (uint16_t)(number != NULL ? atoi(number) : 2);
}

static void tell(const struct doca_flow_model_output *output)
{
    fprintf(results, "%s %u ", doca_flow_model_verdict_name(output->verdict), output->port_id);
    for (size_t i = 0; i < output->length; i++)
        fprintf(results, "%02x", output->frame[i]);
    fprintf(results, " %s\n", output->reason);
    fflush(results);
    if (output->verdict == DOCA_FLOW_MODEL_QUEUED && waits < WAITING_MAX) {
        struct waiting *place = &waiting[waits++];

        *place = (struct waiting){.port = output->port_id, .queue = output->queue, .pkt_meta = output->pkt_meta,
                                  .frame = malloc(output->length), .length = output->length};
        memcpy(place->frame, output->frame, output->length);
    }
}

static void receive(uint16_t port, const char *hex)
{
    static uint8_t frame[FRAME_MAX];
    struct doca_flow_model_result result = {0};
    size_t length = 0;
    unsigned byte;

    while (length < FRAME_MAX && sscanf(hex + 2 * length, "%2x", &byte) == 1)
        frame[length++] = (uint8_t)byte;
    if (doca_flow_model_receive(port, frame, length, &result) != DOCA_SUCCESS)
        fprintf(results, "refused %u - %s\n", port, doca_flow_model_reason());
    for (size_t i = 0; i < result.count; i++)
        tell(&result.outputs[i]);
    doca_flow_model_result_free(&result);
}

static void play_stage(void)
{
    static char line[2 * FRAME_MAX + 16];
    unsigned port;
    int at;

    if (frames == NULL && getenv("SAMPLE_FRAMES") != NULL)
        frames = fopen(getenv("SAMPLE_FRAMES"), "r");
    if (results == NULL)
        results = getenv("SAMPLE_RESULTS") != NULL ? fopen(getenv("SAMPLE_RESULTS"), "w") : stderr;
    if (frames == NULL || results == NULL)
        return;
    while (fgets(line, sizeof(line), frames) != NULL && sscanf(line, "%u %n", &port, &at) == 1)
        receive((uint16_t)port, line + at);
}

static void pass(uint64_t ns)
{
    now_ns += ns;
    doca_flow_model_set_clock(now_ns);
}

/* A long wait is one for packets, a short one a turn of a loop, which waits for the first ones alone; both take no time but the
 * model's. */
unsigned __wrap_sleep(unsigned seconds)
{
    pass(0);
    if (seconds >= SHORT_WAIT || frames == NULL)
        play_stage();
    pass(seconds * UINT64_C(1000000000));
    return 0;
}

int __wrap_usleep(useconds_t microseconds)
{
    pass(microseconds * UINT64_C(1000));
    return 0;
}

int __wrap_rte_eal_init(int argc, char **argv)
{
    static char *own[] = {"sample", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "4096", "--lcores", "(0-7)@0", "--log-level=error", NULL};

    (void)argc;
    (void)argv;
    return __real_rte_eal_init((int)(sizeof(own) / sizeof(own[0])) - 1, own);
}

static uint16_t take_packets(void *queue, struct rte_mbuf **packets, uint16_t most)
{
    size_t number = (size_t)((char *)queue - (char *)queues) / sizeof(queues[0][0]), kept = 0;
    uint16_t port = (uint16_t)(number / RTE_MAX_QUEUES_PER_PORT), of = (uint16_t)(number % RTE_MAX_QUEUES_PER_PORT), taken = 0;

    for (size_t i = 0; i < waits; i++) {
        struct rte_mbuf *packet = NULL;

        if (taken < most && waiting[i].port == port && waiting[i].queue == of && pools[port] != NULL)
            packet = rte_pktmbuf_alloc(pools[port]);
        if (packet == NULL) {
            waiting[kept++] = waiting[i];
            continue;
        }
        memcpy(rte_pktmbuf_append(packet, (uint16_t)waiting[i].length), waiting[i].frame, waiting[i].length);
        packet->port = port;
        if (rte_flow_dynf_metadata_avail()) {
            packet->ol_flags |= RTE_MBUF_DYNFLAG_RX_METADATA;
            *RTE_FLOW_DYNF_METADATA(packet) = waiting[i].pkt_meta;
        }
        free(waiting[i].frame);
        packets[taken++] = packet;
    }
    waits = kept;
    return taken;
}

/* What a program sends on a port of a switch meets the switch's pipes, as what comes in by that port does. */
static uint16_t send_packets(void *queue, struct rte_mbuf **packets, uint16_t number)
{
    size_t place = (size_t)((char *)queue - (char *)queues) / sizeof(queues[0][0]);

    for (uint16_t i = 0; i < number; i++) {
        struct doca_flow_model_result result = {0};

        (void)doca_flow_model_receive((uint16_t)(place / RTE_MAX_QUEUES_PER_PORT), rte_pktmbuf_mtod(packets[i], uint8_t *),
                                      rte_pktmbuf_data_len(packets[i]), &result);
        for (size_t n = 0; n < result.count; n++)
            tell(&result.outputs[n]);
        doca_flow_model_result_free(&result);
        rte_pktmbuf_free(packets[i]);
    }
    return number;
}

__attribute__((constructor)) static void open_ports(void)
{
    for (unsigned port = 0; port < PORTS_MAX; port++) {
        struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];

        for (unsigned queue = 0; queue < RTE_MAX_QUEUES_PER_PORT; queue++)
            queue_data[port][queue] = &queues[port][queue];
        ops->rx_pkt_burst = take_packets;
        ops->tx_pkt_burst = send_packets;
        ops->rxq.data = ops->txq.data = queue_data[port];
        ops->rxq.clbk = ops->txq.clbk = no_callbacks;
    }
}

int rte_eth_dev_is_valid_port(uint16_t port) { return port < port_count(); }
uint16_t rte_eth_dev_count_avail(void) { return port_count(); }
int rte_eth_dev_socket_id(uint16_t port) { (void)port; return 0; }
int rte_eth_dev_start(uint16_t port) { (void)port; return 0; }
int rte_eth_dev_stop(uint16_t port) { (void)port; return 0; }
int rte_eth_dev_close(uint16_t port) { (void)port; return 0; }
int rte_eth_promiscuous_enable(uint16_t port) { (void)port; return 0; }
int rte_eth_dev_get_mtu(uint16_t port, uint16_t *mtu) { (void)port; *mtu = 1500; return 0; }

int rte_eth_macaddr_get(uint16_t port, struct rte_ether_addr *address)
{
    *address = (struct rte_ether_addr){{2, 0, 0, 0, 0, (uint8_t)port}};
    return 0;
}

int rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
    static const uint32_t no_flags;

    (void)port;
    memset(info, 0, sizeof(*info));
    info->dev_flags = &no_flags;
    info->max_rx_queues = info->max_tx_queues = RTE_MAX_QUEUES_PER_PORT;
    info->max_mtu = 9978;
    info->flow_type_rss_offloads = ~UINT64_C(0);
    info->tx_offload_capa = info->rx_offload_capa = ~UINT64_C(0);
    return 0;
}

int rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf)
{
    (void)port, (void)rx, (void)tx, (void)conf;
    return 0;
}

int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t size, unsigned socket, const struct rte_eth_rxconf *conf,
                           struct rte_mempool *pool)
{
    (void)queue, (void)size, (void)socket, (void)conf;
    pools[port] = pool;
    return 0;
}

int rte_eth_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t size, unsigned socket, const struct rte_eth_txconf *conf)
{
    (void)port, (void)queue, (void)size, (void)socket, (void)conf;
    return 0;
}
