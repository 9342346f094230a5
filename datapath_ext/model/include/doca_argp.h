/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line parameters: EAL's before "--", the program's after it. */
#ifndef DOCA_ARGP_H_
#define DOCA_ARGP_H_

#include <stdbool.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum doca_argp_type {
    DOCA_ARGP_TYPE_UNKNOWN = 0,
    DOCA_ARGP_TYPE_STRING = 1,
    DOCA_ARGP_TYPE_INT = 2,
    DOCA_ARGP_TYPE_BOOLEAN = 3,
    DOCA_ARGP_TYPE_DEVICE = 4,
    DOCA_ARGP_TYPE_DEVICE_REP = 5,
    DOCA_ARGP_TYPE_DOUBLE = 6,
};

struct doca_argp_param;
struct doca_dev;
struct doca_dev_rep;

struct doca_argp_device_ctx {
    struct doca_dev *dev;
    const char *devargs; /* what followed the device's name and a comma, or NULL */
};

struct doca_argp_device_rep_ctx {
    struct doca_argp_device_ctx dev_ctx;
    struct doca_dev_rep *dev_rep;
};

typedef doca_error_t (*doca_argp_param_cb_t)(void *value, void *config);
typedef doca_error_t (*doca_argp_dpdk_cb_t)(int argc, char **argv);

doca_error_t doca_argp_init(const char *program_name, void *config);
doca_error_t doca_argp_param_create(struct doca_argp_param **param);
void doca_argp_param_set_short_name(struct doca_argp_param *param, const char *name);
void doca_argp_param_set_long_name(struct doca_argp_param *param, const char *name);
void doca_argp_param_set_description(struct doca_argp_param *param, const char *description);
void doca_argp_param_set_arguments(struct doca_argp_param *param, const char *arguments);
void doca_argp_param_set_callback(struct doca_argp_param *param, doca_argp_param_cb_t callback);
void doca_argp_param_set_type(struct doca_argp_param *param, enum doca_argp_type type);
void doca_argp_param_set_multiplicity(struct doca_argp_param *param);
doca_error_t doca_argp_register_param(struct doca_argp_param *param);
void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback);
doca_error_t doca_argp_start(int argc, char **argv);
doca_error_t doca_argp_destroy(void);

#ifdef __cplusplus
}
#endif

#endif
