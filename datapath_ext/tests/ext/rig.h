/* SPDX-License-Identifier: Apache-2.0 */
/* An engine on the model, programs to change, and packets to send through it. */
#ifndef TESTS_EXT_RIG_H_
#define TESTS_EXT_RIG_H_

#include <jansson.h>

#include "../doca_assert.h"
#include "../frame.h"
#include "engine.h"

extern struct engine rig;

/* One of the example programs as JSON; the caller's. */
json_t *rig_json(const char *name);
/* The value at a path such as "vips/0/slots/3". */
json_t *rig_at(json_t *json, const char *path);
/* Puts a value, which it takes over, at the path; NULL removes what is there. */
void rig_put(json_t *json, const char *path, json_t *value);

/* A number below the limit; the same ones for the same seed. */
unsigned rig_random_below(unsigned *seed, unsigned limit);
/* Gives a VIP of the program this forward and selection, and so many slots, each of one backend or the other by chance. */
void rig_put_vip(json_t *json, unsigned vip, const char *forward, const char *select, unsigned slots, unsigned *seed);

void rig_up(const char *name);
void rig_up_json(json_t *json);
void rig_down(void);
/* Takes the JSON over. */
void rig_load(json_t *json);
/* The load is refused, for a reason that has this text. */
void rig_refuse(json_t *json, const char *text);

/* Answers of a backend or queries of a client, of any IP version. */
struct rig_packet {
    const char *src, *dst;
    uint8_t protocol; /* 0: UDP */
    uint16_t src_port, dst_port; /* dst_port 0: 53 */
};
void rig_frame(struct frame *frame, struct rig_packet packet);

/* One frame in, one out with this verdict; free the result. */
struct doca_flow_model_result rig_send(uint16_t port, const struct frame *frame,
                                       enum doca_flow_model_verdict verdict);
void rig_expect(uint16_t port, const struct frame *frame, enum doca_flow_model_verdict verdict);
/* The last byte of the destination MAC that the packet leaves with: in the examples, the backend. */
unsigned rig_backend(struct rig_packet packet);
/* As rig_backend(), and the whole rest of the frame is as it came. */
unsigned rig_backend_unchanged(struct rig_packet packet);

/* The counter at a path of the answer to `counters`. */
json_int_t rig_counter(const char *path);
json_int_t rig_missed(void);

#endif
