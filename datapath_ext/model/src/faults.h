/* SPDX-License-Identifier: Apache-2.0 */
/* What the model refuses or calls back on request: what hardware is reported to do and the model does not by itself. The
 * model's lock is held throughout. */
#ifndef MODEL_FAULTS_H_
#define MODEL_FAULTS_H_

#include "objects.h"

/* SUCCESS unless it is to be refused now. */
doca_error_t faults_check_add(const struct doca_flow_pipe *pipe);
doca_error_t faults_check_update(const struct doca_flow_pipe_entry *entry);
doca_error_t faults_check_remove(const struct doca_flow_pipe_entry *entry);
/* Whether the entries of a pipe that is destroyed are called back. */
bool faults_call_back_on_destroy(void);
void faults_seed(uint64_t seed);

#endif
