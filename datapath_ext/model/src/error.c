/* SPDX-License-Identifier: Apache-2.0 */
/* Names and descriptions of errors. */
#include <doca_error.h>

#include <stddef.h>

static const struct {
    const char *name;
    const char *descr;
} errors[] = {
    {"DOCA_SUCCESS", "Success"},
    {"DOCA_ERROR_UNKNOWN", "Unknown error"},
    {"DOCA_ERROR_NOT_PERMITTED", "Not permitted"},
    {"DOCA_ERROR_IN_USE", "In use"},
    {"DOCA_ERROR_NOT_SUPPORTED", "Not supported"},
    {"DOCA_ERROR_AGAIN", "Not now; try again"},
    {"DOCA_ERROR_INVALID_VALUE", "A value is not valid"},
    {"DOCA_ERROR_NO_MEMORY", "Out of memory"},
    {"DOCA_ERROR_INITIALIZATION", "Initialisation failed"},
    {"DOCA_ERROR_TIME_OUT", "It took too long"},
    {"DOCA_ERROR_SHUTDOWN", "Shutting down or shut down"},
    {"DOCA_ERROR_CONNECTION_RESET", "The connection was reset"},
    {"DOCA_ERROR_CONNECTION_ABORTED", "The connection was aborted"},
    {"DOCA_ERROR_CONNECTION_INPROGRESS", "The connection is being made"},
    {"DOCA_ERROR_NOT_CONNECTED", "Not connected"},
    {"DOCA_ERROR_NO_LOCK", "The lock is not held"},
    {"DOCA_ERROR_NOT_FOUND", "Not found"},
    {"DOCA_ERROR_IO_FAILED", "Input or output failed"},
    {"DOCA_ERROR_BAD_STATE", "Not possible in this state"},
    {"DOCA_ERROR_UNSUPPORTED_VERSION", "The version is not supported"},
    {"DOCA_ERROR_OPERATING_SYSTEM", "The operating system refused"},
    {"DOCA_ERROR_DRIVER", "The driver failed"},
    {"DOCA_ERROR_UNEXPECTED", "Unexpected"},
    {"DOCA_ERROR_ALREADY_EXIST", "It exists already"},
    {"DOCA_ERROR_FULL", "Full"},
    {"DOCA_ERROR_EMPTY", "Empty"},
    {"DOCA_ERROR_IN_PROGRESS", "Still in progress"},
    {"DOCA_ERROR_TOO_BIG", "Too big"},
    {"DOCA_ERROR_AUTHENTICATION", "Authentication failed"},
    {"DOCA_ERROR_BAD_CONFIG", "The configuration is bad"},
    {"DOCA_ERROR_SKIPPED", "Done, with parts left out"},
    {"DOCA_ERROR_DEVICE_FATAL_ERROR", "The device failed for good"},
};

const char *doca_error_get_name(doca_error_t error)
{
    return (size_t)error < sizeof(errors) / sizeof(errors[0]) ? errors[error].name : "DOCA_ERROR_UNKNOWN";
}

const char *doca_error_get_descr(doca_error_t error)
{
    return (size_t)error < sizeof(errors) / sizeof(errors[0]) ? errors[error].descr : "Unknown error";
}
