/* SPDX-License-Identifier: Apache-2.0 */
/* siit's pipes, and the entries that let answers of a siit VIP's backends back to its clients. */
#ifndef SIIT_ANSWERS_H_
#define SIIT_ANSWERS_H_

#include "forward.h"

enum {
    SIIT_TO_IP6, SIIT_TRANSLATED, /* port in: queries */
    SIIT_TO_IP4, SIIT_ANSWERS,    /* port out: answers */
};

extern const struct answer_ops siit_answers;

#endif
