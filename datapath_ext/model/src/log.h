/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own messages, at the level set for them. */
#ifndef MODEL_LOG_H_
#define MODEL_LOG_H_

#include <stdint.h>

void log_sdk(uint32_t level, const char *text);

#endif
