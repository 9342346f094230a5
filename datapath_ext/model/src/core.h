/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the model share: the library's state, refusals, random numbers, the clock. */
#ifndef MODEL_CORE_H_
#define MODEL_CORE_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <doca_bitfield.h>
#include <doca_error.h>
#include <doca_flow.h>
#include <doca_flow_model.h>

enum { PORTS_MAX = 256, QUEUE_DEPTH_DEFAULT = 128, JUMPS_MAX = 64 };
/* How many types of resources there are: the API's enumerations have no name for it. */
enum { RESOURCE_KINDS = DOCA_FLOW_RESOURCE_IPSEC_SA + 1, SHARED_RESOURCE_KINDS = DOCA_FLOW_SHARED_RESOURCE_IPSEC_SA + 1 };

struct doca_flow_cfg {
    uint16_t queues;
    uint32_t queue_depth;
    uint32_t budget[RESOURCE_KINDS];
    enum doca_flow_resource_mode resource_mode;
    bool mode_set;
    bool switch_mode;
    bool expert;
    doca_flow_entry_process_cb entry_cb;
    doca_flow_pipe_process_cb pipe_cb;
};

struct library {
    bool running;
    struct doca_flow_cfg cfg;
    uint32_t used[RESOURCE_KINDS]; /* of the budget, in system mode */
    struct doca_flow_port *ports[PORTS_MAX];
    unsigned port_count;
    uint64_t unproven;
};

extern struct library model;

/* One lock for everything: callbacks may call the library again, hence recursive. */
void model_lock(void);
void model_unlock(void);

/* Records why a call is refused and returns `code`, so that it can stand in a return statement. */
doca_error_t refuse(doca_error_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Something that nothing public proves: refused with NOT_SUPPORTED when strict, else done with a warning. */
doca_error_t unproven(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line for standard error, when the log level asks for it. */
void note(uint32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t model_random(void);
uint64_t model_now_ns(void);

#endif
