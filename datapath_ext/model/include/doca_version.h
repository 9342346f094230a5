/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the API that the model follows. */
#ifndef DOCA_VERSION_H_
#define DOCA_VERSION_H_

#include <stddef.h>

#define DOCA_VERSION_MAJOR 3
#define DOCA_VERSION_MINOR 3
#define DOCA_VERSION_PATCH 0
#define DOCA_VERSION_STRING "3.3.0"

#define DOCA_VERSION_NUMBER(major, minor, patch) ((size_t)(((major) << 24) | ((minor) << 16) | (patch)))
#define DOCA_CURRENT_VERSION_NUMBER \
    DOCA_VERSION_NUMBER(DOCA_VERSION_MAJOR, DOCA_VERSION_MINOR, DOCA_VERSION_PATCH)
#define DOCA_VERSION_EQ_CURRENT(major, minor, patch) \
    (DOCA_VERSION_NUMBER(major, minor, patch) == DOCA_CURRENT_VERSION_NUMBER)
#define DOCA_VERSION_LTE_CURRENT(major, minor, patch) \
    (DOCA_VERSION_NUMBER(major, minor, patch) <= DOCA_CURRENT_VERSION_NUMBER)

#endif
