/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that the API's declarations carry. The model marks nothing as deprecated. */
#ifndef DOCA_COMPAT_H_
#define DOCA_COMPAT_H_

#define DOCA_STABLE
#ifdef DOCA_ALLOW_EXPERIMENTAL_API
#define DOCA_EXPERIMENTAL
#else
#define DOCA_EXPERIMENTAL __attribute__((warning("experimental; define DOCA_ALLOW_EXPERIMENTAL_API to use it")))
#endif
#define DOCA_DEPRECATED __attribute__((deprecated))

#endif
