/* SPDX-License-Identifier: Apache-2.0 */
/* Stateless translation between IPv4 and IPv6 with 64:ff9b::/96 on both addresses. */
#ifndef MODEL_NAT64_H_
#define MODEL_NAT64_H_

#include <doca_flow_structs.h>

#include "packet.h"

enum nat64_outcome { NAT64_DONE, NAT64_OTHER, NAT64_UNPROVEN, NAT64_NO_ROOM };

/* Translates a packet whose outer header is `original`; others are left alone (OTHER). UNPROVEN, with *why, for what
 * the hardware's treatment of is not known: options, fragments, ICMP, a UDP checksum of 0. The last three are
 * translated all the same unless `strict`. */
enum nat64_outcome nat64_apply(struct packet *packet, enum doca_flow_l3_type original, bool strict, const char **why);

#endif
