/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of the flow API; doca_flow.h includes this. "be" fields hold network order. */
#ifndef DOCA_FLOW_STRUCTS_H_
#define DOCA_FLOW_STRUCTS_H_

#include <stdbool.h>
#include <stdint.h>

#include <doca_flow_crypto.h>
#include <doca_flow_enums.h>
#include <doca_flow_net.h>

#define DOCA_FLOW_META_SCRATCH_PAD_MAX 10
#define DOCA_FLOW_META_MAX 44
#define DOCA_FLOW_MAX_ENTRY_ACTIONS_MEM_SIZE 128

struct doca_flow_pipe;
struct doca_flow_target;

/* Words that actions write and later pipes read. Only pkt_meta outlives a change of domain. */
struct doca_flow_meta {
    doca_be32_t pkt_meta;
    doca_be32_t u32[DOCA_FLOW_META_SCRATCH_PAD_MAX];
};

/* What the parser found; read-only. */
struct doca_flow_parser_meta {
    uint16_t port_id; /* host order: the id given to doca_flow_port_cfg_set_port_id() */
    doca_be16_t random;
    uint8_t ipsec_syndrome;
    uint8_t ipsec_ar_syndrome;
    uint8_t psp_syndrome;
    enum doca_flow_meter_color meter_color;
    enum doca_flow_l2_meta outer_l2_type;
    enum doca_flow_l3_meta outer_l3_type;
    enum doca_flow_l4_meta outer_l4_type;
    enum doca_flow_l2_meta inner_l2_type;
    enum doca_flow_l3_meta inner_l3_type;
    enum doca_flow_l4_meta inner_l4_type;
    uint8_t outer_ip_fragmented;
    uint8_t inner_ip_fragmented;
    uint8_t outer_l3_ok;
    uint8_t outer_ip4_checksum_ok;
    uint8_t outer_l4_ok;
    uint8_t outer_l4_checksum_ok;
    uint8_t inner_l3_ok;
    uint8_t inner_ip4_checksum_ok;
    uint8_t inner_l4_ok;
    uint8_t inner_l4_checksum_ok;
};

#define DOCA_FLOW_VLAN_MAX 2

struct doca_flow_header_format {
    struct doca_flow_header_eth eth;
    uint16_t l2_valid_headers;
    struct doca_flow_header_eth_vlan eth_vlan[DOCA_FLOW_VLAN_MAX];
    enum doca_flow_l3_type l3_type;
    union {
        struct doca_flow_header_ip4 ip4;
        struct doca_flow_header_ip6 ip6;
    };
    enum doca_flow_l4_type_ext l4_type_ext;
    union {
        struct doca_flow_header_icmp icmp;
        struct doca_flow_header_udp udp;
        struct doca_flow_header_tcp tcp;
        struct doca_flow_header_l4_port transport;
        struct doca_flow_header_roce_v2 roce_v2;
    };
};

struct doca_flow_match {
    struct doca_flow_meta meta;
    struct doca_flow_parser_meta parser_meta;
    struct doca_flow_header_format outer;
    struct doca_flow_tun tun;
    struct doca_flow_header_format inner;
};

/* Bits of a field, counted from its least significant one. */
struct doca_flow_desc_field {
    const char *field_string;
    uint32_t bit_offset;
};

struct doca_flow_action_desc {
    enum doca_flow_action_type type;
    union {
        struct {
            struct doca_flow_desc_field src;
            struct doca_flow_desc_field dst;
            uint32_t width;
        } field_op;
    };
};

struct doca_flow_action_descs {
    uint8_t nb_action_desc;
    struct doca_flow_action_desc *desc_array;
};

struct doca_flow_match_condition {
    enum doca_flow_compare_op operation;
    union {
        struct {
            struct doca_flow_desc_field a;
            struct doca_flow_desc_field b; /* no string: compare with the match's value */
            uint32_t width;
        } field_op;
    };
};

struct doca_flow_encap_action {
    struct doca_flow_header_format outer;
    struct doca_flow_tun tun;
};

struct doca_flow_resource_encap_cfg {
    bool is_l2; /* whether the packet keeps its Ethernet header inside of the tunnel */
    struct doca_flow_encap_action encap;
};

struct doca_flow_resource_decap_cfg {
    bool is_l2; /* whether an Ethernet header comes out of the tunnel; if not, this one is put in front */
    struct doca_flow_header_eth eth;
    uint16_t l2_valid_headers;
    struct doca_flow_header_eth_vlan eth_vlan[DOCA_FLOW_VLAN_MAX];
};

struct doca_flow_push_vlan_action {
    doca_be16_t eth_type;
    struct doca_flow_header_eth_vlan vlan_hdr;
};

struct doca_flow_push_action {
    enum doca_flow_push_action_type type;
    union {
        struct doca_flow_push_vlan_action vlan;
    };
};

struct doca_flow_crypto_action {
    enum doca_flow_crypto_action_type action_type;
    enum doca_flow_crypto_resource_type resource_type;
    union {
        struct {
            bool sn_en;
        } ipsec_sa;
    };
    uint32_t crypto_id;
};

struct doca_flow_crypto_encap_action {
    enum doca_flow_crypto_encap_action_type action_type;
    enum doca_flow_crypto_encap_net_type net_type;
    uint16_t icv_size;
    uint16_t data_size;
    uint8_t encap_data[DOCA_FLOW_CRYPTO_HEADER_LEN_MAX];
};

struct doca_flow_nat64_action {
    enum doca_flow_l3_type original_l3_type; /* IP4: to IPv6, IP6: to IPv4, NONE: nothing */
};

struct doca_flow_actions {
    enum doca_flow_resource_type decap_type;
    union {
        struct doca_flow_resource_decap_cfg decap_cfg;
        uint32_t shared_decap_id;
    };
    bool pop_vlan;
    struct doca_flow_meta meta;
    struct doca_flow_parser_meta parser_meta;
    struct doca_flow_header_format outer;
    struct doca_flow_tun tun;
    enum doca_flow_resource_type encap_type;
    union {
        struct doca_flow_resource_encap_cfg encap_cfg;
        uint32_t shared_encap_id;
    };
    bool has_push;
    struct doca_flow_push_action push;
    struct doca_flow_nat64_action nat64;
    bool has_crypto_encap;
    struct doca_flow_crypto_encap_action crypto_encap;
    struct doca_flow_crypto_action crypto;
};

struct doca_flow_crypto {
    bool has_crypto_encap;
    struct doca_flow_crypto_encap_action crypto_encap;
    struct doca_flow_crypto_action crypto;
};

struct doca_flow_resource_rss_cfg {
    uint32_t outer_flags;
    uint32_t inner_flags;
    uint16_t *queues_array;
    int nr_queues;
    enum doca_flow_rss_hash_function rss_hash_func;
};

struct doca_flow_fwd {
    enum doca_flow_fwd_type type;
    union {
        struct {
            enum doca_flow_resource_type rss_type;
            union {
                struct doca_flow_resource_rss_cfg rss;
                uint32_t shared_rss_id;
            };
        };
        uint16_t port_id;
        struct doca_flow_pipe *next_pipe;
        struct {
            struct doca_flow_pipe *pipe;
            uint32_t idx;
        } ordered_list_pipe;
        struct doca_flow_target *target;
        struct {
            struct doca_flow_pipe *pipe;
            enum doca_flow_pipe_hash_map_algorithm algorithm;
        } hash_pipe;
    };
};

struct doca_flow_resource_meter_cfg {
    enum doca_flow_meter_limit_type limit_type;
    enum doca_flow_meter_color_mode color_mode;
    enum doca_flow_meter_algorithm_type alg;
    uint64_t cir;
    uint64_t cbs;
    union {
        struct {
            uint64_t ebs;
        } rfc2697;
        struct {
            uint64_t pir;
            uint64_t pbs;
        } rfc2698;
        struct {
            uint64_t eir;
            uint64_t ebs;
        } rfc4115;
    };
};

struct doca_flow_resource_psp_cfg {
    struct doca_flow_crypto_key_cfg key_cfg;
};

struct doca_flow_resource_ipsec_sa_cfg {
    struct doca_flow_crypto_key_cfg key_cfg;
    uint32_t salt;
    uint64_t implicit_iv;
    enum doca_flow_crypto_icv_len icv_len;
    enum doca_flow_crypto_sn_offload_type sn_offload_type;
    enum doca_flow_crypto_replay_win_size win_size;
    bool esn_en;
    uint64_t sn_initial;
    uint32_t lifetime_threshold;
};

struct doca_flow_shared_resource_cfg {
    union {
        struct doca_flow_resource_meter_cfg meter_cfg;
        struct doca_flow_resource_rss_cfg rss_cfg;
        struct doca_flow_resource_psp_cfg psp_cfg;
        struct doca_flow_resource_encap_cfg encap_cfg;
        struct doca_flow_resource_decap_cfg decap_cfg;
        struct doca_flow_resource_ipsec_sa_cfg ipsec_sa_cfg;
    };
};

struct doca_flow_monitor {
    enum doca_flow_resource_type meter_type;
    union {
        struct {
            enum doca_flow_meter_limit_type limit_type;
            uint64_t cir;
            uint64_t cbs;
        } non_shared_meter;
        struct {
            uint32_t shared_meter_id;
            enum doca_flow_meter_color meter_init_color;
        } shared_meter;
    };
    enum doca_flow_resource_type counter_type;
    union {
        struct {
            uint32_t shared_counter_id;
        } shared_counter;
    };
    uint32_t aging_sec;
};

struct doca_flow_ordered_list_element {
    enum doca_flow_ordered_list_element_type type;
    union {
        struct {
            struct doca_flow_actions *actions;
            struct doca_flow_actions *actions_mask;
            struct doca_flow_action_descs *action_descs;
        };
        struct doca_flow_monitor *monitor;
        struct doca_flow_nat64_action *nat64;
        struct doca_flow_crypto *crypto;
    };
};

struct doca_flow_ordered_list {
    uint32_t idx; /* its place among the pipe's lists */
    uint32_t size;
    struct doca_flow_ordered_list_element *elements;
};

struct doca_flow_resource_query {
    union {
        struct {
            uint64_t total_bytes;
            uint64_t total_pkts;
        } counter;
        struct {
            uint64_t current_sn;
        } ipsec_sa;
    };
};

struct doca_flow_entropy_format {
    enum doca_flow_l3_type l3_type;
    union {
        struct doca_flow_header_ip4 ip4;
        struct doca_flow_header_ip6 ip6;
    };
    bool is_transport;
    struct doca_flow_header_l4_port transport;
};

#endif
