/* Only what the layout of actions and shared resources needs: the model encrypts nothing and refuses any use of it. */
#ifndef DOCA_FLOW_CRYPTO_H_
#define DOCA_FLOW_CRYPTO_H_

#include <stdbool.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>

#define DOCA_FLOW_CRYPTO_HEADER_LEN_MAX 128
#define DOCA_FLOW_CRYPTO_KEY_LEN_MAX 32

enum doca_flow_crypto_resource_type {
    DOCA_FLOW_CRYPTO_RESOURCE_NONE = 0,
    DOCA_FLOW_CRYPTO_RESOURCE_IPSEC_SA,
    DOCA_FLOW_CRYPTO_RESOURCE_PSP,
};

enum doca_flow_crypto_action_type {
    DOCA_FLOW_CRYPTO_ACTION_NONE = 0,
    DOCA_FLOW_CRYPTO_ACTION_ENCRYPT,
    DOCA_FLOW_CRYPTO_ACTION_DECRYPT,
};

enum doca_flow_crypto_encap_action_type {
    DOCA_FLOW_CRYPTO_REFORMAT_NONE = 0,
    DOCA_FLOW_CRYPTO_REFORMAT_ENCAP,
    DOCA_FLOW_CRYPTO_REFORMAT_DECAP,
};

enum doca_flow_crypto_encap_net_type {
    DOCA_FLOW_CRYPTO_HEADER_NONE = 0,
    DOCA_FLOW_CRYPTO_HEADER_ESP_TUNNEL,
    DOCA_FLOW_CRYPTO_HEADER_ESP_OVER_IPV4,
    DOCA_FLOW_CRYPTO_HEADER_ESP_OVER_IPV6,
    DOCA_FLOW_CRYPTO_HEADER_UDP_ESP_OVER_IPV4,
    DOCA_FLOW_CRYPTO_HEADER_UDP_ESP_OVER_IPV6,
    DOCA_FLOW_CRYPTO_HEADER_ESP_OVER_LAN,
    DOCA_FLOW_CRYPTO_HEADER_PSP_TUNNEL,
    DOCA_FLOW_CRYPTO_HEADER_PSP_OVER_IPV4,
    DOCA_FLOW_CRYPTO_HEADER_PSP_OVER_IPV6,
};

enum doca_flow_crypto_key_type {
    DOCA_FLOW_CRYPTO_KEY_128 = 0,
    DOCA_FLOW_CRYPTO_KEY_256,
};

struct doca_flow_crypto_encap_action {
    enum doca_flow_crypto_encap_action_type action_type;
    enum doca_flow_crypto_encap_net_type net_type;
    uint16_t icv_size;
    uint16_t data_size;
    uint8_t encap_data[DOCA_FLOW_CRYPTO_HEADER_LEN_MAX];
};

struct doca_flow_crypto_action {
    enum doca_flow_crypto_action_type action_type;
    enum doca_flow_crypto_resource_type resource_type;
    uint32_t crypto_id;
};

struct doca_flow_crypto_key_cfg {
    enum doca_flow_crypto_key_type key_type;
    uint32_t *key;
};

struct doca_flow_resource_ipsec_sa_cfg {
    struct doca_flow_crypto_key_cfg key_cfg;
    uint64_t implicit_iv;
    uint32_t salt;
};

struct doca_flow_resource_psp_cfg {
    struct doca_flow_crypto_key_cfg key_cfg;
};

#endif
