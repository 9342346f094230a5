/* SPDX-License-Identifier: Apache-2.0 */
/* Frames through the model, without devices: {"frames": [["in", "<hex>"], ...]} and what became of each. */
#ifndef FRAMES_BATCH_H_
#define FRAMES_BATCH_H_

#include <jansson.h>

#include "fault.h"

/* Runs all frames, in order, or none: NULL, and which one is no frame. The answer has, for each frame, what left
 * ("results") and the model's verdict with its reason ("verdicts"). */
json_t *frames_batch(const json_t *request, struct fault *fault);

#endif
