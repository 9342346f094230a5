/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes into ports whose pipes do everything to packets. A fuzzer's entry point (build with -fsanitize=fuzzer and
 * without main), and by itself a test over a corpus of malformed packets and mutations of them. */
#include "fuzz.h"

static bool up;

static struct doca_flow_pipe *pipe_of(const char *name, bool root, struct doca_flow_actions *actions,
                                      const struct doca_flow_match *match, const struct doca_flow_fwd *fwd,
                                      const struct doca_flow_fwd *miss)
{
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, name, DOCA_FLOW_PIPE_BASIC, root);
    struct doca_flow_actions *templates[] = {actions};
    struct doca_flow_pipe *pipe;

    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    pipe = testbed_create(cfg, fwd, miss);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, match, 0, actions, NULL, NULL, 0, NULL, NULL));
    return pipe;
}

/* root: rewrites everything -> decap -> NAT64 either way -> hash -> VLAN -> encap */
static void set_up(void)
{
    struct doca_flow_match all = {0}, ip4 = {0}, ip6 = {0}, tunnel = {0}, key = {0};
    struct doca_flow_actions encap = {0}, vlan = {0}, to6 = {0}, to4 = {0}, decap = {0}, set4 = {0}, set6 = {0};
    struct doca_flow_fwd next = to_port(1), slots;
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *hash;

    testbed_up("vnf,hws", 2);
    encap.encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    encap.encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    encap.encap_cfg.encap.outer.l3_type = DOCA_FLOW_L3_TYPE_IP6;
    encap.encap_cfg.encap.outer.ip6.next_proto = 41;
    next = to_pipe(pipe_of("encap", false, &encap, &all, &next, NULL));
    vlan.has_push = true;
    vlan.push.vlan.eth_type = DOCA_HTOBE16(0x8100);
    vlan.push.vlan.vlan_hdr.tci = DOCA_HTOBE16(7);
    next = to_pipe(pipe_of("vlan", false, &vlan, &all, &next, NULL));

    cfg = testbed_cfg(0, "hash", DOCA_FLOW_PIPE_HASH, false);
    key.outer.l3_type = DOCA_FLOW_L3_TYPE_IP6;
    key.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_TRANSPORT;
    memset(key.outer.ip6.src_ip, 0xff, 16);
    key.outer.transport.src_port = key.outer.transport.dst_port = UINT16_MAX;
    key.inner.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    key.inner.ip4.src_ip = UINT32_MAX;
    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, 2));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
    hash = testbed_create(cfg, &next, NULL);
    for (uint32_t i = 0; i < 2; i++)
        assert_doca_ok(doca_flow_pipe_hash_add_entry(0, hash, i, 0, NULL, NULL, NULL, 0, NULL, NULL));
    slots = to_pipe(hash);

    ip4.parser_meta.outer_l3_type = DOCA_FLOW_L3_META_IPV4;
    ip6.parser_meta.outer_l3_type = DOCA_FLOW_L3_META_IPV6;
    to6.nat64.original_l3_type = DOCA_FLOW_L3_TYPE_IP4;
    to4.nat64.original_l3_type = DOCA_FLOW_L3_TYPE_IP6;
    next = to_pipe(pipe_of("to6", false, &to6, &ip4, &slots, &slots));
    next = to_pipe(pipe_of("to4", false, &to4, &ip6, &next, &next));
    tunnel.parser_meta.inner_l3_type = DOCA_FLOW_L3_META_IPV4;
    decap.decap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    decap.decap_cfg.eth.type = DOCA_HTOBE16(0x0800);
    next = to_pipe(pipe_of("decap", false, &decap, &tunnel, &next, &next));
    set6.outer.l3_type = DOCA_FLOW_L3_TYPE_IP6;
    set6.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_TCP;
    set6.outer.ip6.dst_ip[3] = 1;
    set6.outer.ip6.hop_limit = 9;
    set6.outer.tcp.seq_num = 77;
    next = to_pipe(pipe_of("set6", false, &set6, &ip6, &next, &next));
    set4.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    set4.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_TRANSPORT;
    set4.outer.ip4.src_ip = 99;
    set4.outer.ip4.dscp_ecn = 4;
    set4.outer.transport.dst_port = 9;
    (void)pipe_of("set4", true, &set4, &ip4, &next, &next);
    testbed_process(0);
    up = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct doca_flow_model_result result;

    if (!up)
        set_up();
    if (size == 0 || size > 65535)
        return 0;
    assert_doca_ok(doca_flow_model_receive(0, data, size, &result));
    assert_int_equal(result.count, 1);
    doca_flow_model_result_free(&result);
    return 0;
}
