/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions on DOCA calls, for cmocka: what a call returned, by name, and the model's reason. */
#ifndef TESTS_DOCA_ASSERT_H_
#define TESTS_DOCA_ASSERT_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <doca_error.h>
#include <doca_flow_model.h>

#define assert_doca_ok(call)                                                                              \
    do {                                                                                                  \
        doca_error_t result_ = (call);                                                                    \
        if (result_ != DOCA_SUCCESS)                                                                      \
            fail_msg("%s: %s: %s", #call, doca_error_get_name(result_), doca_flow_model_reason());        \
    } while (0)

/* Refused with this code, for a reason that has this text in it. */
#define assert_doca_refused(call, code, text)                                                             \
    do {                                                                                                  \
        doca_error_t result_ = (call);                                                                    \
        if (result_ != (code) || strstr(doca_flow_model_reason(), (text)) == NULL)                        \
            fail_msg("%s: %s: \"%s\", expected %s and \"%s\"", #call, doca_error_get_name(result_),       \
                     doca_flow_model_reason(), doca_error_get_name(code), (text));                        \
    } while (0)

#endif
