/* SPDX-License-Identifier: Apache-2.0 */
/* Whole data paths of a DNS load balancer, in strict mode: what they are made of is in public programs. */
#include "testbed.h"

#include <arpa/inet.h>

static const uint32_t vip = 0xc0000235; /* 192.0.2.53 */

/* A control root: UDP to port 53 of the VIP goes on, all else to the kernel. */
static void classify(const struct doca_flow_fwd *next)
{
    struct doca_flow_match match = {0}, mask = {0}, all = {0};
    struct doca_flow_fwd kernel = {.type = DOCA_FLOW_FWD_TARGET};
    struct doca_flow_pipe *pipe = testbed_create(testbed_cfg(0, "vips", DOCA_FLOW_PIPE_CONTROL, true), NULL, NULL);

    assert_doca_ok(doca_flow_get_target(DOCA_FLOW_TARGET_KERNEL, &kernel.target));
    match.parser_meta.outer_l3_type = DOCA_FLOW_L3_META_IPV4;
    match.parser_meta.outer_l4_type = DOCA_FLOW_L4_META_UDP;
    match.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    match.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    match.outer.ip4.dst_ip = DOCA_HTOBE32(vip);
    match.outer.udp.l4_port.dst_port = DOCA_HTOBE16(53);
    mask.parser_meta.outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX;
    mask.parser_meta.outer_l4_type = (enum doca_flow_l4_meta)UINT32_MAX;
    mask.outer.l3_type = DOCA_FLOW_L3_TYPE_IP4;
    mask.outer.l4_type_ext = DOCA_FLOW_L4_TYPE_EXT_UDP;
    mask.outer.ip4.dst_ip = UINT32_MAX;
    mask.outer.udp.l4_port.dst_port = UINT16_MAX;
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &match, &mask, NULL, NULL, NULL, NULL, NULL, 1, next, NULL,
                                                    NULL));
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, pipe, &all, &all, NULL, NULL, NULL, NULL, NULL, 7, &kernel, NULL,
                                                    NULL));
}

/* Slots by the client's address, which write their number to pkt_meta: it lives on in the egress domain. */
static struct doca_flow_pipe *slots(uint32_t count, const struct doca_flow_fwd *next)
{
    struct doca_flow_match key = {.outer = {.l3_type = DOCA_FLOW_L3_TYPE_IP4, .ip4 = {.src_ip = UINT32_MAX}}};
    struct doca_flow_actions slot = {.meta = {.pkt_meta = UINT32_MAX}}, *templates[] = {&slot};
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, "slots", DOCA_FLOW_PIPE_HASH, false);
    struct doca_flow_pipe *pipe;

    assert_doca_ok(doca_flow_pipe_cfg_set_nr_entries(cfg, count));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, NULL, &key));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    pipe = testbed_create(cfg, next, NULL);
    for (uint32_t i = 0; i < count; i++) {
        slot.meta.pkt_meta = DOCA_HTOBE32(i);
        assert_doca_ok(doca_flow_pipe_hash_add_entry(0, pipe, i, 0, &slot, NULL, NULL, 0, NULL, NULL));
    }
    testbed_process(0);
    return pipe;
}

/* Egress root of port 1: a tunnel per slot, to 2001:db8::b0, ::b1, ... */
static struct doca_flow_pipe *backends(uint32_t count)
{
    struct doca_flow_match match = {0}, mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_actions encap = {.encap_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED}, *templates[] = {&encap};
    struct doca_flow_header_format *outer = &encap.encap_cfg.encap.outer;
    struct doca_flow_fwd fwd = to_port(1), drop = to_drop();
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(1, "backends", DOCA_FLOW_PIPE_BASIC, true);
    struct doca_flow_pipe *pipe;

    encap.encap_cfg.encap.tun.type = DOCA_FLOW_TUN_IP_IN_IP;
    outer->l3_type = DOCA_FLOW_L3_TYPE_IP6;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", outer->ip6.src_ip), 1);
    memset(outer->ip6.dst_ip, 0xff, 16);
    outer->ip6.next_proto = DOCA_FLOW_PROTO_IPV4;
    outer->ip6.hop_limit = 64;
    memset(outer->eth.dst_mac, 0x02, 6);
    assert_doca_ok(doca_flow_pipe_cfg_set_domain(cfg, DOCA_FLOW_PIPE_DOMAIN_EGRESS));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    pipe = testbed_create(cfg, &fwd, &drop);
    for (uint32_t i = 0; i < count; i++) {
        match.meta.pkt_meta = DOCA_HTOBE32(i);
        assert_int_equal(inet_pton(AF_INET6, "2001:db8::b0", outer->ip6.dst_ip), 1);
        ((uint8_t *)outer->ip6.dst_ip)[15] = (uint8_t)(0xb0 + i);
        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, &encap, NULL, NULL, 0, NULL, NULL));
    }
    testbed_process(1);
    return pipe;
}

static void tunnels_each_client_to_its_backend(void **state)
{
    struct doca_flow_fwd next;
    struct frame frame;
    unsigned found[4] = {0};

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_strict(true);
    assert_doca_ok(doca_flow_port_pair(testbed_port[0], testbed_port[1]));
    next = to_pipe(backends(4));
    next = to_pipe(slots(4, &next));
    classify(&next);
    for (unsigned client = 0; client < 64; client++) {
        unsigned first = 4;
        char address[32];

        (void)snprintf(address, sizeof(address), "198.51.100.%u", client);
        for (uint16_t sport = 1000; sport < 1003; sport++) {
            struct doca_flow_model_result result;
            unsigned backend;

            frame_packet(&frame, address, "192.0.2.53", 17, sport, 53);
            result = testbed_send(0, &frame, DOCA_FLOW_MODEL_SENT);
            assert_int_equal(result.outputs[0].length, frame.length + 40);
            assert_true(frame_checksums_ok(result.outputs[0].frame, result.outputs[0].length));
            assert_true(memcmp(result.outputs[0].frame + 54, frame.bytes + 14, frame.length - 14) == 0);
            backend = result.outputs[0].frame[14 + 39] - 0xb0U;
            assert_true(backend < 4 && (first == 4 || backend == first)); /* whatever the client's port */
            first = backend;
            doca_flow_model_result_free(&result);
        }
        found[first]++;
    }
    for (unsigned i = 0; i < 4; i++)
        assert_true(found[i] >= 6); /* 16 on average */
    frame_packet(&frame, "198.51.100.1", "192.0.2.53", 6, 1, 53);
    testbed_expect(0, &frame, DOCA_FLOW_MODEL_KERNEL);
    testbed_down();
}

/* IPv4 VIP, IPv6 backend: the list translates, the next pipe puts the backend's address. */
static void translates_to_a_backend(void **state)
{
    struct doca_flow_nat64_action nat64 = {.original_l3_type = DOCA_FLOW_L3_TYPE_IP4};
    struct doca_flow_ordered_list_element element = {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64, .nat64 = &nat64};
    struct doca_flow_ordered_list list = {.size = 1, .elements = &element}, *lists[] = {&list};
    struct doca_flow_actions set = {0}, *templates[] = {&set};
    struct doca_flow_match all = {0};
    struct doca_flow_fwd next = to_port(1), to_list = {.type = DOCA_FLOW_FWD_ORDERED_LIST_PIPE};
    struct doca_flow_pipe_cfg *cfg;
    struct doca_flow_pipe *pipe;
    struct frame in, expected;

    testbed_up("vnf,hws", 2);
    doca_flow_model_set_strict(true);
    cfg = testbed_cfg(0, "address", DOCA_FLOW_PIPE_BASIC, false);
    set.outer.l3_type = DOCA_FLOW_L3_TYPE_IP6;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::b0", set.outer.ip6.dst_ip), 1);
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &all, NULL));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    pipe = testbed_create(cfg, &next, NULL);
    assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &all, 0, NULL, NULL, NULL, 0, NULL, NULL));
    next = to_pipe(pipe);
    cfg = testbed_cfg(0, "nat64", DOCA_FLOW_PIPE_ORDERED_LIST, false);
    assert_doca_ok(doca_flow_pipe_cfg_set_ordered_lists(cfg, lists, 1));
    to_list.ordered_list_pipe.pipe = testbed_create(cfg, &next, NULL);
    assert_doca_ok(doca_flow_pipe_ordered_list_add_entry(0, to_list.ordered_list_pipe.pipe, 0, &list, NULL, 0, NULL, NULL));
    testbed_process(0);
    classify(&to_list);

    frame_packet(&in, "198.51.100.7", "192.0.2.53", 17, 40001, 53);
    frame_start(&expected);
    frame_eth(&expected, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
    frame_ip(&expected, (struct ip){.src = "64:ff9b::c633:6407", .dst = "2001:db8::b0", .proto = 17});
    frame_udp(&expected, 40001, 53);
    frame_text(&expected, "payload");
    frame_finish(&expected);
    testbed_expect_frame(0, &in, 1, &expected);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tunnels_each_client_to_its_backend),
        cmocka_unit_test(translates_to_a_backend),
    };

    return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}
