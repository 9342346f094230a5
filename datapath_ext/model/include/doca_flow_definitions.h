/* SPDX-License-Identifier: Apache-2.0 */
/* Names for fields that a program adds behind the API's structures: the model takes none, and programs include this. */
#ifndef DOCA_FLOW_DEFINITIONS_H_
#define DOCA_FLOW_DEFINITIONS_H_

struct doca_flow_definitions;
struct doca_flow_definitions_cfg;

#endif
