/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerations of the flow API; doca_flow.h includes this. */
#ifndef DOCA_FLOW_ENUMS_H_
#define DOCA_FLOW_ENUMS_H_

enum doca_flow_pipe_type {
    DOCA_FLOW_PIPE_BASIC = 0,
    DOCA_FLOW_PIPE_CONTROL,
    DOCA_FLOW_PIPE_LPM,
    DOCA_FLOW_PIPE_CT,
    DOCA_FLOW_PIPE_ACL,
    DOCA_FLOW_PIPE_ORDERED_LIST,
    DOCA_FLOW_PIPE_HASH,
};

enum doca_flow_pipe_domain {
    DOCA_FLOW_PIPE_DOMAIN_DEFAULT = 0,
    DOCA_FLOW_PIPE_DOMAIN_SECURE_INGRESS,
    DOCA_FLOW_PIPE_DOMAIN_EGRESS,
    DOCA_FLOW_PIPE_DOMAIN_SECURE_EGRESS,
};

enum doca_flow_fwd_type {
    DOCA_FLOW_FWD_NONE = 0,
    DOCA_FLOW_FWD_RSS,
    DOCA_FLOW_FWD_PORT,
    DOCA_FLOW_FWD_PIPE,
    DOCA_FLOW_FWD_DROP,
    DOCA_FLOW_FWD_TARGET,
    DOCA_FLOW_FWD_ORDERED_LIST_PIPE,
    DOCA_FLOW_FWD_HASH_PIPE,
    DOCA_FLOW_FWD_CHANGEABLE = 100, /* each entry brings its own, of any type */
};

enum doca_flow_target_type {
    DOCA_FLOW_TARGET_KERNEL = 0,
};

enum doca_flow_resource_type {
    DOCA_FLOW_RESOURCE_TYPE_NONE = 0,
    DOCA_FLOW_RESOURCE_TYPE_SHARED,
    DOCA_FLOW_RESOURCE_TYPE_NON_SHARED,
};

enum doca_flow_resource {
    DOCA_FLOW_RESOURCE_METER = 0,
    DOCA_FLOW_RESOURCE_COUNTER,
    DOCA_FLOW_RESOURCE_RSS,
    DOCA_FLOW_RESOURCE_PSP,
    DOCA_FLOW_RESOURCE_ENCAP,
    DOCA_FLOW_RESOURCE_DECAP,
    DOCA_FLOW_RESOURCE_IPSEC_SA,
};

enum doca_flow_shared_resource_type {
    DOCA_FLOW_SHARED_RESOURCE_METER = 0,
    DOCA_FLOW_SHARED_RESOURCE_COUNTER,
    DOCA_FLOW_SHARED_RESOURCE_RSS,
    DOCA_FLOW_SHARED_RESOURCE_PSP,
    DOCA_FLOW_SHARED_RESOURCE_ENCAP,
    DOCA_FLOW_SHARED_RESOURCE_DECAP,
    DOCA_FLOW_SHARED_RESOURCE_IPSEC_SA,
};

enum doca_flow_resource_mode {
    DOCA_FLOW_RESOURCE_MODE_SYSTEM = 0,
    DOCA_FLOW_RESOURCE_MODE_PORT,
};

enum doca_flow_entry_op {
    DOCA_FLOW_ENTRY_OP_ADD = 0,
    DOCA_FLOW_ENTRY_OP_DEL,
    DOCA_FLOW_ENTRY_OP_UPD,
    DOCA_FLOW_ENTRY_OP_AGED,
};

enum doca_flow_entry_status {
    DOCA_FLOW_ENTRY_STATUS_IN_PROCESS = 0,
    DOCA_FLOW_ENTRY_STATUS_SUCCESS,
    DOCA_FLOW_ENTRY_STATUS_ERROR,
};

/* Flags of operations on entries: at most one of them. */
enum doca_flow_entry_flags {
    DOCA_FLOW_ENTRY_FLAGS_NO_WAIT = 1U << 0,
    DOCA_FLOW_ENTRY_FLAGS_WAIT_FOR_BATCH = 1U << 1,
};

enum doca_flow_pipe_op {
    DOCA_FLOW_PIPE_OP_CONGESTION_REACHED = 0,
    DOCA_FLOW_PIPE_OP_RESIZED,
    DOCA_FLOW_PIPE_OP_DESTROYED,
};

enum doca_flow_pipe_status {
    DOCA_FLOW_PIPE_STATUS_SUCCESS = 1,
    DOCA_FLOW_PIPE_STATUS_ERROR,
};

enum doca_flow_pipe_hash_map_algorithm {
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_HASH = 1 << 0,
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_RANDOM = 1 << 1,
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_IDENTITY = 1 << 2,
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_ROUND_ROBIN = 1 << 3,
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_FLOODING = 1 << 4,
    DOCA_FLOW_PIPE_HASH_MAP_ALGORITHM_SELECT_ENABLED = 1 << 5,
};

/* One byte wide, because it is a field of the parser's meta data. */
enum doca_flow_meter_color {
    DOCA_FLOW_METER_COLOR_RED = 0,
    DOCA_FLOW_METER_COLOR_YELLOW,
    DOCA_FLOW_METER_COLOR_GREEN,
} __attribute__((packed));

enum doca_flow_meter_algorithm_type {
    DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2697 = 0,
    DOCA_FLOW_METER_ALGORITHM_TYPE_RFC2698,
    DOCA_FLOW_METER_ALGORITHM_TYPE_RFC4115,
};

enum doca_flow_meter_limit_type {
    DOCA_FLOW_METER_LIMIT_TYPE_BYTES = 0, /* per second, as for packets */
    DOCA_FLOW_METER_LIMIT_TYPE_PACKETS,
};

enum doca_flow_meter_color_mode {
    DOCA_FLOW_METER_COLOR_MODE_BLIND = 0,
    DOCA_FLOW_METER_COLOR_MODE_AWARE,
};

enum doca_flow_l2_meta {
    DOCA_FLOW_L2_META_NO_VLAN = 0,
    DOCA_FLOW_L2_META_MULTI_VLAN,
    DOCA_FLOW_L2_META_SINGLE_VLAN,
    DOCA_FLOW_L2_META_CUSTOM_VLAN,
};

enum doca_flow_l3_meta {
    DOCA_FLOW_L3_META_NONE = 0,
    DOCA_FLOW_L3_META_IPV4,
    DOCA_FLOW_L3_META_IPV6,
};

enum doca_flow_l4_meta {
    DOCA_FLOW_L4_META_NONE = 0,
    DOCA_FLOW_L4_META_TCP,
    DOCA_FLOW_L4_META_UDP,
    DOCA_FLOW_L4_META_ICMP, /* of either IP version */
    DOCA_FLOW_L4_META_ESP,
};

/* Of parser_meta.psp_syndrome and ipsec_syndrome. */
enum doca_flow_crypto_syndrome {
    DOCA_FLOW_CRYPTO_SYNDROME_OK = 0,
    DOCA_FLOW_CRYPTO_SYNDROME_ICV_FAIL,
    DOCA_FLOW_CRYPTO_SYNDROME_BAD_TRAILER,
};

enum doca_flow_match_tcp_flags {
    DOCA_FLOW_MATCH_TCP_FLAG_FIN = 1 << 0,
    DOCA_FLOW_MATCH_TCP_FLAG_SYN = 1 << 1,
    DOCA_FLOW_MATCH_TCP_FLAG_RST = 1 << 2,
    DOCA_FLOW_MATCH_TCP_FLAG_PSH = 1 << 3,
    DOCA_FLOW_MATCH_TCP_FLAG_ACK = 1 << 4,
    DOCA_FLOW_MATCH_TCP_FLAG_URG = 1 << 5,
    DOCA_FLOW_MATCH_TCP_FLAG_ECE = 1 << 6,
    DOCA_FLOW_MATCH_TCP_FLAG_CWR = 1 << 7,
};

/* Bits of doca_flow_header_format.l2_valid_headers. */
enum doca_flow_l2_valid_header {
    DOCA_FLOW_L2_VALID_HEADER_VLAN_0 = 1 << 0,
    DOCA_FLOW_L2_VALID_HEADER_VLAN_1 = 1 << 1,
};

enum doca_flow_action_type {
    DOCA_FLOW_ACTION_AUTO = 0,
    DOCA_FLOW_ACTION_ADD,
    DOCA_FLOW_ACTION_COPY,
};

enum doca_flow_compare_op {
    DOCA_FLOW_COMPARE_EQ = 0,
    DOCA_FLOW_COMPARE_NE,
    DOCA_FLOW_COMPARE_LT,
    DOCA_FLOW_COMPARE_LE,
    DOCA_FLOW_COMPARE_GT,
    DOCA_FLOW_COMPARE_GE,
};

enum doca_flow_ordered_list_element_type {
    DOCA_FLOW_ORDERED_LIST_ELEMENT_ACTIONS = 0,
    DOCA_FLOW_ORDERED_LIST_ELEMENT_MONITOR,
    DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64,
    DOCA_FLOW_ORDERED_LIST_ELEMENT_CRYPTO,
};

enum doca_flow_port_operation_state {
    DOCA_FLOW_PORT_OPERATION_STATE_ACTIVE = 0,
    DOCA_FLOW_PORT_OPERATION_STATE_ACTIVE_READY_TO_SWAP,
    DOCA_FLOW_PORT_OPERATION_STATE_STANDBY,
    DOCA_FLOW_PORT_OPERATION_STATE_UNCONNECTED,
};

enum doca_rss_type {
    DOCA_FLOW_RSS_IPV4 = 1 << 0,
    DOCA_FLOW_RSS_IPV6 = 1 << 1,
    DOCA_FLOW_RSS_UDP = 1 << 2,
    DOCA_FLOW_RSS_TCP = 1 << 3,
    DOCA_FLOW_RSS_ESP = 1 << 4,
    DOCA_FLOW_RSS_IPV4_SRC = 1 << 5,
    DOCA_FLOW_RSS_IPV4_DST = 1 << 6,
    DOCA_FLOW_RSS_IPV6_SRC = 1 << 7,
    DOCA_FLOW_RSS_IPV6_DST = 1 << 8,
    DOCA_FLOW_RSS_UDP_SRC = 1 << 9,
    DOCA_FLOW_RSS_UDP_DST = 1 << 10,
    DOCA_FLOW_RSS_TCP_SRC = 1 << 11,
    DOCA_FLOW_RSS_TCP_DST = 1 << 12,
    DOCA_FLOW_RSS_AUTO = 1 << 30,
};

enum doca_flow_rss_hash_function {
    DOCA_FLOW_RSS_HASH_FUNCTION_TOEPLITZ = 0,
    DOCA_FLOW_RSS_HASH_FUNCTION_SYMMETRIC_TOEPLITZ,
};

enum doca_flow_push_action_type {
    DOCA_FLOW_PUSH_ACTION_VLAN = 0,
};

#endif
