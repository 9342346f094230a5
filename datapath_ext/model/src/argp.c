/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: EAL's parameters, "--", the program's. */
#include <doca_argp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <doca_log.h>

#include "core.h"
#include "dev.h"

enum { PARAMS_MAX = 64, SPEC_MAX = 256 };

struct doca_argp_param {
    const char *short_name, *long_name, *description, *arguments;
    doca_argp_param_cb_t callback;
    enum doca_argp_type type;
    bool multiple, given;
};

static struct {
    const char *program;
    void *config;
    struct doca_argp_param *params[PARAMS_MAX];
    unsigned count;
    doca_argp_dpdk_cb_t dpdk;
    char *devargs[PARAMS_MAX]; /* handed to callbacks, and kept by programs */
    unsigned devargs_count;
} state;

doca_error_t doca_argp_init(const char *program_name, void *config)
{
    (void)doca_argp_destroy();
    state.program = program_name != NULL ? program_name : "program";
    state.config = config;
    return DOCA_SUCCESS;
}

doca_error_t doca_argp_param_create(struct doca_argp_param **param)
{
    if (param == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "argp_param_create without a place for it");
    *param = calloc(1, sizeof(**param));
    return *param != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a parameter");
}

void doca_argp_param_set_short_name(struct doca_argp_param *param, const char *name)
{
    param->short_name = name;
}

void doca_argp_param_set_long_name(struct doca_argp_param *param, const char *name)
{
    param->long_name = name;
}

void doca_argp_param_set_description(struct doca_argp_param *param, const char *description)
{
    param->description = description;
}

void doca_argp_param_set_arguments(struct doca_argp_param *param, const char *arguments)
{
    param->arguments = arguments;
}

void doca_argp_param_set_callback(struct doca_argp_param *param, doca_argp_param_cb_t callback)
{
    param->callback = callback;
}

void doca_argp_param_set_type(struct doca_argp_param *param, enum doca_argp_type type)
{
    param->type = type;
}

void doca_argp_param_set_multiplicity(struct doca_argp_param *param)
{
    param->multiple = true;
}

doca_error_t doca_argp_register_param(struct doca_argp_param *param)
{
    if (param == NULL || param->callback == NULL || (param->short_name == NULL && param->long_name == NULL))
        return refuse(DOCA_ERROR_INVALID_VALUE, "argp_register_param without a name or a callback");
    if (state.count == PARAMS_MAX)
        return refuse(DOCA_ERROR_FULL, "more than %d parameters", PARAMS_MAX);
    state.params[state.count++] = param;
    return DOCA_SUCCESS;
}

void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback)
{
    state.dpdk = callback;
}

static void print_usage(void)
{
    (void)printf("usage: %s [EAL parameters] -- [parameters]\n", state.program);
    for (unsigned i = 0; i < state.count; i++) {
        const struct doca_argp_param *param = state.params[i];

        (void)printf("  -%s, --%s %s\t%s\n", param->short_name != NULL ? param->short_name : "",
                     param->long_name != NULL ? param->long_name : "",
                     param->arguments != NULL ? param->arguments : "",
                     param->description != NULL ? param->description : "");
    }
}

static doca_error_t call_device(const struct doca_argp_param *param, const char *value)
{
    size_t length = strcspn(value, ",");
    struct doca_argp_device_ctx context = {0};
    char name[SPEC_MAX];

    if (length == 0 || length >= sizeof(name) || state.devargs_count == PARAMS_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "device \"%s\"", value);
    memcpy(name, value, length);
    name[length] = '\0';
    if (value[length] == ',') {
        char *devargs = strdup(value + length + 1);

        if (devargs == NULL)
            return refuse(DOCA_ERROR_NO_MEMORY, "no memory for device arguments");
        state.devargs[state.devargs_count++] = devargs;
        context.devargs = devargs;
    }
    context.dev = dev_open_name(name);
    if (context.dev == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "device \"%s\"", value);
    return param->callback(&context, state.config);
}

static doca_error_t call_one_rep(const struct doca_argp_param *param, const char *device, const char *name)
{
    struct doca_argp_device_rep_ctx context = {.dev_ctx.dev = dev_open_name(device)};
    doca_error_t result;

    if (context.dev_ctx.dev == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "device \"%s\"", device);
    context.dev_rep = rep_open_name(context.dev_ctx.dev, name);
    result = doca_dev_close(context.dev_ctx.dev); /* the representor holds it */
    if (context.dev_rep == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a representor");
    return result == DOCA_SUCCESS ? param->callback(&context, state.config) : result;
}

/* DEVICE,NAME or DEVICE,NAME[FROM-TO]: one call per representor. */
static doca_error_t call_reps(const struct doca_argp_param *param, const char *value)
{
    char device[SPEC_MAX], stem[SPEC_MAX], name[SPEC_MAX + 16];
    unsigned from = 0, to = 0;
    int fields = sscanf(value, "%255[^,],%255[^[,][%u-%u]", device, stem, &from, &to);
    doca_error_t result = DOCA_SUCCESS;

    if (fields < 2 || from > to + (fields == 3 ? from : 0) || to > from + 64)
        return refuse(DOCA_ERROR_INVALID_VALUE, "representor \"%s\"; DEVICE,NAME or DEVICE,NAME[FROM-TO]", value);
    if (fields == 2)
        return call_one_rep(param, device, stem);
    if (fields == 3)
        to = from;
    for (unsigned i = from; i <= to && result == DOCA_SUCCESS; i++) {
        (void)snprintf(name, sizeof(name), "%s%u", stem, i);
        result = call_one_rep(param, device, name);
    }
    return result;
}

static doca_error_t call(struct doca_argp_param *param, const char *value)
{
    char *end = NULL;
    bool yes = true;
    double real;
    int number;

    if (param->given && !param->multiple)
        return refuse(DOCA_ERROR_INVALID_VALUE, "parameter --%s a second time", param->long_name);
    param->given = true;
    switch (param->type) {
    case DOCA_ARGP_TYPE_STRING:
        return param->callback((void *)(uintptr_t)value, state.config); /* it lives as long as argv */
    case DOCA_ARGP_TYPE_INT:
        number = (int)strtol(value, &end, 0);
        if (end == value || *end != '\0')
            return refuse(DOCA_ERROR_INVALID_VALUE, "\"%s\" is no whole number", value);
        return param->callback(&number, state.config);
    case DOCA_ARGP_TYPE_DOUBLE:
        real = strtod(value, &end);
        if (end == value || *end != '\0')
            return refuse(DOCA_ERROR_INVALID_VALUE, "\"%s\" is no number", value);
        return param->callback(&real, state.config);
    case DOCA_ARGP_TYPE_BOOLEAN:
        return param->callback(&yes, state.config);
    case DOCA_ARGP_TYPE_DEVICE:
        return call_device(param, value);
    case DOCA_ARGP_TYPE_DEVICE_REP:
        return call_reps(param, value);
    case DOCA_ARGP_TYPE_UNKNOWN:
    default:
        return refuse(DOCA_ERROR_INVALID_VALUE, "parameter of type %d", (int)param->type);
    }
}

static struct doca_argp_param *find(const char *argument)
{
    for (unsigned i = 0; i < state.count; i++) {
        struct doca_argp_param *param = state.params[i];

        if (param->short_name != NULL && argument[0] == '-' && strcmp(argument + 1, param->short_name) == 0)
            return param;
        if (param->long_name != NULL && strncmp(argument, "--", 2) == 0 && strcmp(argument + 2, param->long_name) == 0)
            return param;
    }
    return NULL;
}

/* Parameters that every program has. */
static bool is_common(const char *argument, const char *value, bool *used)
{
    uint32_t level = value != NULL ? (uint32_t)strtoul(value, NULL, 10) : 0;

    *used = true;
    if (strcmp(argument, "-l") == 0 || strcmp(argument, "--log-level") == 0) {
        (void)doca_log_level_set_global_lower_limit(level);
        return true;
    }
    if (strcmp(argument, "--sdk-log-level") == 0) {
        (void)doca_log_level_set_global_sdk_limit(level);
        return true;
    }
    *used = false;
    if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
        print_usage();
        exit(EXIT_SUCCESS);
    }
    return false;
}

static doca_error_t parse(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        struct doca_argp_param *param = find(argv[i]);
        doca_error_t result;
        bool used;

        if (param == NULL) {
            if (!is_common(argv[i], value, &used))
                return refuse(DOCA_ERROR_INVALID_VALUE, "parameter %s is not known", argv[i]);
            i += used;
            continue;
        }
        if (param->type != DOCA_ARGP_TYPE_BOOLEAN) {
            if (value == NULL)
                return refuse(DOCA_ERROR_INVALID_VALUE, "parameter %s without a value", argv[i]);
            i++;
        }
        result = call(param, value);
        if (result != DOCA_SUCCESS)
            return result;
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_argp_start(int argc, char **argv)
{
    int split = argc, first = 1;
    doca_error_t result = DOCA_SUCCESS;

    if (argc < 1 || argv == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "argp_start without arguments");
    for (int i = 1; i < argc && split == argc; i++)
        if (strcmp(argv[i], "--") == 0)
            split = i;
    if (state.dpdk != NULL) {
        result = state.dpdk(split == argc ? 1 : split, argv);
        first = split == argc ? 1 : split + 1;
    }
    if (result == DOCA_SUCCESS)
        result = parse(argc - first, argv + first);
    return result;
}

doca_error_t doca_argp_destroy(void)
{
    for (unsigned i = 0; i < state.count; i++)
        free(state.params[i]);
    for (unsigned i = 0; i < state.devargs_count; i++)
        free(state.devargs[i]);
    memset(&state, 0, sizeof(state));
    return DOCA_SUCCESS;
}
