/* The tune server: declared, so that programs that ask for it compile; starting it is refused as NOT_SUPPORTED, which
 * public programs take for a library without one. */
#ifndef DOCA_FLOW_TUNE_SERVER_H_
#define DOCA_FLOW_TUNE_SERVER_H_

#include <doca_flow.h>

#ifdef __cplusplus
extern "C" {
#endif

enum doca_flow_tune_server_mode {
    DOCA_FLOW_TUNE_SERVER_MODE_BASIC = 0, /* a thread of its own */
    DOCA_FLOW_TUNE_SERVER_MODE_EXPERT,    /* the program polls */
};

struct doca_flow_tune_server_cfg;

doca_error_t doca_flow_tune_server_cfg_create(struct doca_flow_tune_server_cfg **cfg);
doca_error_t doca_flow_tune_server_cfg_destroy(struct doca_flow_tune_server_cfg *cfg);
doca_error_t doca_flow_tune_server_cfg_set_cfg_file_path(struct doca_flow_tune_server_cfg *cfg, const char *path);
doca_error_t doca_flow_tune_server_cfg_set_mode(struct doca_flow_tune_server_cfg *cfg,
                                                enum doca_flow_tune_server_mode mode);
doca_error_t doca_flow_tune_server_cfg_set_fd(struct doca_flow_tune_server_cfg *cfg, int fd);
doca_error_t doca_flow_tune_server_init(const struct doca_flow_tune_server_cfg *cfg);
void doca_flow_tune_server_destroy(void);
doca_error_t doca_flow_tune_server_process_msg(void);

#ifdef __cplusplus
}
#endif

#endif
