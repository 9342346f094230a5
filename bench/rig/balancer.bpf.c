/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest balancer in XDP by Katran's scheme: Maglev by the client's address and port, MAC addresses rewritten (direct
 * server return), no connection table. `client_side` is for the balancer's device to the client, `server_side` for those to
 * servers, whose answers it routes back; `plain` passes everything, as the other end of a veth needs a program of its own to
 * take what is redirected to it. What is for neither goes up to the kernel. rig.h is written by xdp.py.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "rig.h" /* VIP4, VIP6, OWN_MAC, CLIENT_MAC, UPLINK, SERVER_MACS, PORTS, TABLE_SIZE, TABLE */

struct ports {
    __be16 source, destination;
};

static const __u8 own[ETH_ALEN] = OWN_MAC, client[ETH_ALEN] = CLIENT_MAC;
const volatile __u8 servers[][ETH_ALEN] = SERVER_MACS;
const volatile __u32 devices[] = PORTS;
const volatile __u8 table[TABLE_SIZE] = TABLE;

static __always_inline __u32 mixed(__u32 hash, __u32 word) {
    hash = (hash ^ word) * 2654435761u; /* Knuth, The Art of Computer Programming 3, section 6.4 */
    return hash ^ hash >> 15;
}

static __always_inline void set_macs(struct ethhdr *eth, const volatile __u8 *to, const __u8 *from) {
#pragma unroll
    for (int n = 0; n < ETH_ALEN; n++) eth->h_dest[n] = to[n], eth->h_source[n] = from[n];
}

SEC("xdp")
int client_side(struct xdp_md *context) {
    void *at = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    struct ethhdr *eth = at;
    struct ports *ports;
    __u32 hash, n;
    __u8 protocol;

    if ((void *)(eth + 1) > end) return XDP_PASS;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = (void *)(eth + 1);
        if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->daddr != VIP4) return XDP_PASS;
        if (ip->frag_off & bpf_htons(0x3fff)) return XDP_PASS;
        hash = mixed(0, ip->saddr), protocol = ip->protocol, ports = (void *)(ip + 1);
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
        static const __be32 vip[4] = VIP6;
        struct ipv6hdr *ip = (void *)(eth + 1);
        if ((void *)(ip + 1) > end) return XDP_PASS;
        hash = 0;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            if (ip->daddr.in6_u.u6_addr32[word] != vip[word]) return XDP_PASS;
            hash = mixed(hash, ip->saddr.in6_u.u6_addr32[word]);
        }
        protocol = ip->nexthdr, ports = (void *)(ip + 1);
    } else {
        return XDP_PASS;
    }
    if ((protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) || (void *)(ports + 1) > end) return XDP_PASS;
    if (ports->destination != bpf_htons(53)) return XDP_PASS;
    n = mixed(hash, (__u32)ports->source << 8 | protocol) % TABLE_SIZE;
    barrier_var(n); /* the verifier does not see that it is less */
    if (n >= TABLE_SIZE) return XDP_ABORTED;
    n = table[n];
    barrier_var(n);
    if (n >= sizeof devices / sizeof *devices) return XDP_ABORTED;
    set_macs(eth, servers[n], own);
    return (int)bpf_redirect(devices[n], 0);
}

SEC("xdp")
int server_side(struct xdp_md *context) {
    struct ethhdr *eth = (void *)(long)context->data;
    if ((void *)(eth + 1) > (void *)(long)context->data_end) return XDP_PASS;
    if (eth->h_dest[0] & 1) return XDP_PASS; /* broadcast and multicast */
    set_macs(eth, client, own);
    return (int)bpf_redirect(UPLINK, 0);
}

SEC("xdp")
int plain(struct xdp_md *context) {
    (void)context;
    return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
