/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RTE_ETHDEV_H_
#define RTE_ETHDEV_H_

#include <stdint.h>

struct rte_mempool;

struct rte_eth_conf {
    uint32_t link_speeds;
    struct {
        uint32_t mtu;
    } rxmode;
};

struct rte_eth_rxconf;
struct rte_eth_txconf;

int rte_eth_dev_get_mtu(uint16_t port, uint16_t *mtu);
int rte_eth_promiscuous_enable(uint16_t port);
int rte_eth_dev_configure(uint16_t port, uint16_t receive_queues, uint16_t send_queues, const struct rte_eth_conf *conf);
int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_rxconf *conf, struct rte_mempool *pool);
int rte_eth_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_txconf *conf);
int rte_eth_dev_start(uint16_t port);
int rte_eth_dev_stop(uint16_t port);
int rte_eth_dev_close(uint16_t port);

#endif
