/* Tuning: what programs set is checked and kept, and there is nothing in software that it could tune. */
#include <stdlib.h>

#include <doca_flow_tune_server.h>

#include "core.h"

struct doca_flow_tune_cfg {
    enum doca_flow_tune_profile profile;
};

struct doca_flow_tune_server_cfg {
    enum doca_flow_tune_server_mode mode;
};

static doca_error_t no_cfg(const char *call)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "%s without a configuration or a value", call);
}

doca_error_t doca_flow_tune_cfg_create(struct doca_flow_tune_cfg **tune_cfg)
{
    if (tune_cfg == NULL)
        return no_cfg("tune_cfg_create");
    *tune_cfg = calloc(1, sizeof(**tune_cfg));
    return *tune_cfg != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a tune configuration");
}

doca_error_t doca_flow_tune_cfg_destroy(struct doca_flow_tune_cfg *tune_cfg)
{
    if (tune_cfg == NULL)
        return no_cfg("tune_cfg_destroy");
    free(tune_cfg);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_tune_cfg_set_profile(struct doca_flow_tune_cfg *tune_cfg, enum doca_flow_tune_profile profile)
{
    if (tune_cfg == NULL || (profile != DOCA_FLOW_TUNE_PROFILE_NONE && profile != DOCA_FLOW_TUNE_PROFILE_PIPELINE &&
                             profile != DOCA_FLOW_TUNE_PROFILE_FULL))
        return no_cfg("tune_cfg_set_profile");
    tune_cfg->profile = profile;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_cfg_set_tune_cfg(struct doca_flow_cfg *cfg, struct doca_flow_tune_cfg *tune_cfg)
{
    return cfg != NULL && tune_cfg != NULL ? DOCA_SUCCESS : no_cfg("cfg_set_tune_cfg");
}

doca_error_t doca_flow_tune_server_cfg_create(struct doca_flow_tune_server_cfg **cfg)
{
    if (cfg == NULL)
        return no_cfg("tune_server_cfg_create");
    *cfg = calloc(1, sizeof(**cfg));
    return *cfg != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a tune server configuration");
}

doca_error_t doca_flow_tune_server_cfg_destroy(struct doca_flow_tune_server_cfg *cfg)
{
    if (cfg == NULL)
        return no_cfg("tune_server_cfg_destroy");
    free(cfg);
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_tune_server_cfg_set_cfg_file_path(struct doca_flow_tune_server_cfg *cfg, const char *path)
{
    return cfg != NULL && path != NULL ? DOCA_SUCCESS : no_cfg("tune_server_cfg_set_cfg_file_path");
}

doca_error_t doca_flow_tune_server_cfg_set_mode(struct doca_flow_tune_server_cfg *cfg,
                                                enum doca_flow_tune_server_mode mode)
{
    if (cfg == NULL || (unsigned)mode > DOCA_FLOW_TUNE_SERVER_MODE_EXPERT)
        return no_cfg("tune_server_cfg_set_mode");
    cfg->mode = mode;
    return DOCA_SUCCESS;
}

doca_error_t doca_flow_tune_server_cfg_set_fd(struct doca_flow_tune_server_cfg *cfg, int fd)
{
    return cfg != NULL && fd >= 0 ? DOCA_SUCCESS : no_cfg("tune_server_cfg_set_fd");
}

doca_error_t doca_flow_tune_server_init(const struct doca_flow_tune_server_cfg *cfg)
{
    if (cfg == NULL)
        return no_cfg("tune_server_init");
    return refuse(DOCA_ERROR_NOT_SUPPORTED, "a tune server; the model has none");
}

void doca_flow_tune_server_destroy(void)
{
}

doca_error_t doca_flow_tune_server_process_msg(void)
{
    return refuse(DOCA_ERROR_INVALID_VALUE, "tune_server_process_msg without a running tune server");
}
