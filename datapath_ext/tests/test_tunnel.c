/* SPDX-License-Identifier: Apache-2.0 */
/* IP-in-IP and VXLAN, in and out: the published packets of the four combinations. */
#include "testbed.h"

#include <arpa/inet.h>

struct tunnel {
    const char *src_mac, *dst_mac, *src, *dst;
};

static void put_mac(uint8_t *mac, const char *text)
{
    assert_int_equal(sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5), 6);
}

static void put_ip(struct doca_flow_header_format *outer, const char *src, const char *dst)
{
    if (outer->l3_type == DOCA_FLOW_L3_TYPE_IP4) {
        assert_int_equal(inet_pton(AF_INET, src, &outer->ip4.src_ip), 1);
        assert_int_equal(inet_pton(AF_INET, dst, &outer->ip4.dst_ip), 1);
    } else {
        assert_int_equal(inet_pton(AF_INET6, src, outer->ip6.src_ip), 1);
        assert_int_equal(inet_pton(AF_INET6, dst, outer->ip6.dst_ip), 1);
    }
}

/* A template for one outer and one inner version. */
static void fill_template(struct doca_flow_actions *actions, enum doca_flow_l3_type l3, uint8_t inner)
{
    struct doca_flow_header_format *outer = &actions->encap_cfg.encap.outer;

    memset(actions, 0, sizeof(*actions));
    actions->encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    actions->encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    memset(outer->eth.src_mac, 0xff, 6);
    memset(outer->eth.dst_mac, 0xff, 6);
    outer->l3_type = l3;
    if (l3 == DOCA_FLOW_L3_TYPE_IP4) {
        outer->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV4);
        outer->ip4.src_ip = outer->ip4.dst_ip = UINT32_MAX;
        outer->ip4.ttl = 64;
        outer->ip4.dscp_ecn = 0xd8;
        outer->ip4.next_proto = inner;
    } else {
        outer->eth.type = DOCA_HTOBE16(DOCA_FLOW_ETHER_TYPE_IPV6);
        memset(outer->ip6.src_ip, 0xff, 16);
        memset(outer->ip6.dst_ip, 0xff, 16);
        outer->ip6.hop_limit = 64;
        outer->ip6.traffic_class = 0xd8;
        outer->ip6.next_proto = inner;
    }
}

static const struct tunnel tunnels[2][2] = {
    /* outer IPv4: for inner IPv4, for inner IPv6 */
    {{"de:ad:be:ef:00:01", "12:34:56:78:9a:bc", "10.0.0.1", "20.0.0.1"},
     {"01:00:ef:be:ad:de", "bc:9a:78:56:34:12", "30.0.0.1", "40.0.0.1"}},
    /* outer IPv6 */
    {{"aa:bb:cc:dd:ee:ff", "11:22:33:44:55:66", "1111:5555:2222:6666:3333:7777:4444:8888",
      "aaaa:eeee:bbbb:ffff:cccc:0:dddd:9999"},
     {"ff:ee:dd:cc:bb:aa", "66:55:44:33:22:11", "4444:8888:3333:7777:2222:6666:1111:5555",
      "dddd:9999:cccc:0:bbbb:ffff:aaaa:eeee"}},
};

/* An egress root pipe on port 1 that encapsulates by the version of what it gets. */
static struct doca_flow_pipe *encap_pipe(enum doca_flow_l3_type l3)
{
    struct doca_flow_match match = {.parser_meta = {.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX}};
    struct doca_flow_actions templates[2], entry, *list[] = {&templates[0], &templates[1]};
    struct doca_flow_fwd fwd = to_port(1), drop = to_drop();
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(1, "encap", DOCA_FLOW_PIPE_BASIC, true);
    struct doca_flow_pipe *pipe;

    fill_template(&templates[0], l3, DOCA_FLOW_PROTO_IPV4);
    fill_template(&templates[1], l3, DOCA_FLOW_PROTO_IPV6);
    assert_doca_ok(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, list, NULL, NULL, 2));
    pipe = testbed_create(cfg, &fwd, &drop);
    for (unsigned inner = 0; inner < 2; inner++) {
        const struct tunnel *tunnel = &tunnels[l3 == DOCA_FLOW_L3_TYPE_IP6][inner];
        struct doca_flow_header_format *outer = &entry.encap_cfg.encap.outer;

        memset(&entry, 0, sizeof(entry));
        outer->l3_type = l3;
        put_mac(outer->eth.src_mac, tunnel->src_mac);
        put_mac(outer->eth.dst_mac, tunnel->dst_mac);
        put_ip(outer, tunnel->src, tunnel->dst);
        match.parser_meta.outer_l3_type = inner == 0 ? DOCA_FLOW_L3_META_IPV4 : DOCA_FLOW_L3_META_IPV6;
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, (uint8_t)inner, &entry, NULL, NULL, 0, NULL, NULL));
    }
    testbed_process(1);
    return pipe;
}

static void add_inner(struct frame *frame, bool ip6, const char *text)
{
    struct ip ip = {.src = ip6 ? "::1" : "127.0.0.1", .dst = ip6 ? "::1" : "127.0.0.1", .id = ip6 ? 0 : 1};

    ip.proto = ip6 ? 17 : 6;
    frame_ip(frame, ip);
    if (ip6)
        frame_udp(frame, 5678, 80);
    else
        frame_tcp(frame, 1234, 80);
    frame_text(frame, text);
    frame_finish(frame);
}

static void encapsulates(enum doca_flow_l3_type l3)
{
    struct doca_flow_fwd fwd;

    testbed_up("vnf,hws", 2);
    fwd = to_pipe(encap_pipe(l3));
    (void)testbed_all(0, &fwd);
    for (unsigned inner = 0; inner < 2; inner++) {
        bool outer6 = l3 == DOCA_FLOW_L3_TYPE_IP6;
        const struct tunnel *tunnel = &tunnels[outer6][inner];
        struct frame in, expected;

        frame_start(&in);
        frame_eth(&in, "66:66:66:66:66:66", "ff:ff:ff:ff:ff:ff", inner ? 0x86dd : 0x0800);
        add_inner(&in, inner, "received on port 0, encapsulated, forwarded to port 1");
        frame_start(&expected);
        frame_eth(&expected, tunnel->src_mac, tunnel->dst_mac, outer6 ? 0x86dd : 0x0800);
        frame_ip(&expected, (struct ip){.src = tunnel->src, .dst = tunnel->dst, .tos = 0xd8, .ttl = 64,
                                        .proto = inner ? 41 : 4});
        add_inner(&expected, inner, "received on port 0, encapsulated, forwarded to port 1");
        testbed_expect_frame(0, &in, 1, &expected);
    }
    testbed_down();
}

static void encapsulates_in_ip4(void **state)
{
    encapsulates(DOCA_FLOW_L3_TYPE_IP4);
}

static void encapsulates_in_ip6(void **state)
{
    encapsulates(DOCA_FLOW_L3_TYPE_IP6);
}

/* A forward to the port leaves without the egress root; as up to 3.0, when told so, through it. */
static void leaves_by_a_port_without_its_egress_pipes(void **state)
{
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_model_result result;
    struct frame in;

    testbed_up("vnf,hws", 2);
    (void)encap_pipe(DOCA_FLOW_L3_TYPE_IP6);
    (void)testbed_all(0, &fwd);
    frame_packet(&in, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    testbed_expect_frame(0, &in, 1, &in);
    doca_flow_model_set_egress_by_port(true);
    result = testbed_send(0, &in, DOCA_FLOW_MODEL_SENT);
    doca_flow_model_set_egress_by_port(false);
    assert_int_equal(result.outputs[0].length, in.length + 40);
    doca_flow_model_result_free(&result);
    testbed_down();
}

static struct doca_flow_pipe *decap_pipe(bool outer6, bool root, struct doca_flow_pipe *miss,
                                         const char *const macs[2][2])
{
    struct doca_flow_match match = {0};
    struct doca_flow_actions actions = {.decap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED}, *list[] = {&actions};
    struct doca_flow_fwd fwd = to_port(0), next = miss != NULL ? to_pipe(miss) : to_drop();
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(1, outer6 ? "decap6" : "decap4", DOCA_FLOW_PIPE_BASIC, root);
    struct doca_flow_pipe *pipe;

    match.parser_meta.outer_l3_type = outer6 ? DOCA_FLOW_L3_META_IPV6 : DOCA_FLOW_L3_META_IPV4;
    match.outer.l3_type = outer6 ? DOCA_FLOW_L3_TYPE_IP6 : DOCA_FLOW_L3_TYPE_IP4;
    if (outer6)
        match.outer.ip6.next_proto = UINT8_MAX;
    else
        match.outer.ip4.next_proto = UINT8_MAX;
    memset(&actions.decap_cfg.eth, 0xff, sizeof(actions.decap_cfg.eth));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, list, NULL, NULL, 1));
    pipe = testbed_create(cfg, &fwd, &next);
    for (unsigned inner = 0; inner < 2; inner++) {
        memset(&match, 0, sizeof(match)); /* the pipe's l3_type counts, not the entry's */
        if (outer6)
            match.outer.ip6.next_proto = inner ? 41 : 4;
        else
            match.outer.ip4.next_proto = inner ? 41 : 4;
        put_mac(actions.decap_cfg.eth.src_mac, macs[inner][0]);
        put_mac(actions.decap_cfg.eth.dst_mac, macs[inner][1]);
        actions.decap_cfg.eth.type = inner ? DOCA_HTOBE16(0x86dd) : DOCA_HTOBE16(0x0800);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, &actions, NULL, NULL, 0, NULL, NULL));
    }
    testbed_process(1);
    return pipe;
}

static void decapsulates_all_four(void **state)
{
    static const char *const macs[2][2][2] = {
        {{"44:55:66:77:88:99", "11:22:33:44:55:66"}, {"99:88:77:66:55:44", "66:55:44:33:22:11"}},
        {{"77:88:99:aa:bb:cc", "dd:ee:ff:11:22:33"}, {"cc:bb:aa:99:88:77", "33:22:11:ff:ee:dd"}},
    };
    struct doca_flow_pipe *pipe6;
    struct frame in, expected;

    testbed_up("vnf,hws", 2);
    pipe6 = decap_pipe(true, false, NULL, macs[1]);
    (void)decap_pipe(false, true, pipe6, macs[0]);
    for (unsigned outer6 = 0; outer6 < 2; outer6++)
        for (unsigned inner = 0; inner < 2; inner++) {
            frame_start(&in);
            frame_eth(&in, "00:00:00:00:00:01", "00:00:00:00:00:02", outer6 ? 0x86dd : 0x0800);
            frame_ip(&in, (struct ip){.src = outer6 ? "2001:db8::1" : "192.0.2.1",
                                      .dst = outer6 ? "2001:db8::2" : "192.0.2.2", .proto = inner ? 41 : 4});
            add_inner(&in, inner, "in a tunnel on port 1");
            frame_start(&expected);
            frame_eth(&expected, macs[outer6][inner][0], macs[outer6][inner][1], inner ? 0x86dd : 0x0800);
            add_inner(&expected, inner, "in a tunnel on port 1");
            testbed_expect_frame(1, &in, 0, &expected);
        }
    frame_packet(&in, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    testbed_expect(1, &in, DOCA_FLOW_MODEL_DROPPED);
    testbed_down();
}

static void encapsulates_in_vxlan_and_back(void **state)
{
    struct doca_flow_match match = {0};
    struct doca_flow_actions encap = {0}, decap = {0}, *templates[] = {&encap, &decap};
    struct doca_flow_fwd fwd = to_port(1);
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe_entry *entry;
    struct doca_flow_monitor monitor = {.counter_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED};
    struct doca_flow_resource_query query;
    struct doca_flow_model_result result;
    struct doca_flow_pipe *pipe;
    struct frame in, tunnel;

    testbed_up("switch,hws", 2);
    cfg = testbed_cfg(0, "vxlan", DOCA_FLOW_PIPE_BASIC, true);
    match.parser_meta.outer_l4_type = DOCA_FLOW_L4_META_UDP;
    match.parser_meta.inner_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
    encap.encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    encap.encap_cfg.is_l2 = true;
    encap.encap_cfg.encap.tun.type = DOCA_FLOW_TUN_VXLAN;
    encap.encap_cfg.encap.tun.vxlan_tun_id = DOCA_HTOBE32(0xabcdef);
    encap.encap_cfg.encap.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    encap.encap_cfg.encap.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    encap.encap_cfg.encap.outer.ip4.src_ip = DOCA_HTOBE32(0xcb007101);
    encap.encap_cfg.encap.outer.ip4.dst_ip = DOCA_HTOBE32(0xcb007102);
    encap.encap_cfg.encap.outer.ip4.ttl = 17;
    encap.encap_cfg.encap.outer.udp.l4_port.dst_port = DOCA_HTOBE16(DOCA_FLOW_VXLAN_DEFAULT_PORT);
    memset(encap.encap_cfg.encap.outer.eth.src_mac, 0x21, 6);
    memset(encap.encap_cfg.encap.outer.eth.dst_mac, 0x43, 6);
    decap.decap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    decap.decap_cfg.is_l2 = true;
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 2));
    assert_doca_ok(doca_flow_pipe_cfg_set_monitor(cfg, &monitor));
    pipe = testbed_create(cfg, &fwd, NULL);
    match.parser_meta.inner_l3_type = DOCA_FLOW_L3_META_NONE;
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, NULL, NULL, NULL, 0, NULL, &entry));
    match.parser_meta.inner_l3_type = DOCA_FLOW_L3_META_IPV4;
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 1, NULL, NULL, NULL, 0, NULL, NULL));
    testbed_process(0);

    frame_packet(&in, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    result = testbed_send(0, &in, DOCA_FLOW_MODEL_SENT);
    assert_int_equal(result.outputs[0].length, in.length + 14 + 20 + 8 + 8);
    assert_true(frame_checksums_ok(result.outputs[0].frame, result.outputs[0].length));
    assert_true(memcmp(result.outputs[0].frame + 50, in.bytes, in.length) == 0);
    assert_true(memcmp(result.outputs[0].frame + 42 + 4, "\xab\xcd\xef\0", 4) == 0);
    memcpy(tunnel.bytes, result.outputs[0].frame, result.outputs[0].length);
    tunnel.length = result.outputs[0].length;
    doca_flow_model_result_free(&result);
    testbed_expect_frame(0, &tunnel, 1, &in);

    /* A counter counts the frame before its encapsulation. */
    assert_doca_ok(doca_flow_resource_query_entry(entry, &query));
    assert_int_equal(query.counter.total_bytes, in.length);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(encapsulates_in_ip4),
        cmocka_unit_test(encapsulates_in_ip6),
        cmocka_unit_test(leaves_by_a_port_without_its_egress_pipes),
        cmocka_unit_test(decapsulates_all_four),
        cmocka_unit_test(encapsulates_in_vxlan_and_back),
    };

    return cmocka_run_group_tests_name("tunnel", tests, NULL, NULL);
}
