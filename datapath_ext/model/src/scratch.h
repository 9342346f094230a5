/* SPDX-License-Identifier: Apache-2.0 */
/* Words of meta data that hardware uses for itself: a program that relies on them must fail here too. */
#ifndef MODEL_SCRATCH_H_
#define MODEL_SCRATCH_H_

#include "packet.h"

enum scratch_user { SCRATCH_NAT64, SCRATCH_HASH, SCRATCH_LPM, SCRATCH_COLOR };

void scratch_clobber(struct packet *packet, enum scratch_user user);
/* All words: at reception (with pkt_meta), and at a change of domain. A public program counts on zeros that it has not
 * written; documents say that there is no initial value. Hence zeros, and junk when strict. */
void scratch_fill(struct packet *packet, bool with_pkt_meta);

#endif
