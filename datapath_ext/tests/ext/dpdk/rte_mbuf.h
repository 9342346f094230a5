/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RTE_MBUF_H_
#define RTE_MBUF_H_

#include <stdint.h>

#define RTE_PKTMBUF_HEADROOM 128
#define SOCKET_ID_ANY (-1)

struct rte_mempool;

struct rte_mempool *rte_pktmbuf_pool_create(const char *name, unsigned count, unsigned cache, uint16_t private_size,
                                            uint16_t room, int socket);
void rte_mempool_free(struct rte_mempool *pool);

#endif
