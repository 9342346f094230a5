/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RTE_ERRNO_H_
#define RTE_ERRNO_H_

extern int rte_errno;

const char *rte_strerror(int error);

#endif
