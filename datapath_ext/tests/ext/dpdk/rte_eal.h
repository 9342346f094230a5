/* SPDX-License-Identifier: Apache-2.0 */
/* What platform_dpdk.c needs of DPDK, declared here for a test that records its calls. */
#ifndef RTE_EAL_H_
#define RTE_EAL_H_

int rte_eal_init(int argc, char **argv);
int rte_eal_cleanup(void);

#endif
