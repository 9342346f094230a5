/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the outer header off IP-in-IP packets to this name server, before the kernel sees them. See README.md.
 *
 * Every packet that is not surely ours goes up to the kernel untouched, and is counted by why.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Index into decap_counts; decapctl.py has the same order. The first that can take a header off is IPV4_IN_IPV4. */
enum outcome {
    PASSED,
    IPV4_IN_IPV4,
    IPV6_IN_IPV4,
    IPV4_IN_IPV6,
    IPV6_IN_IPV6,
    MALFORMED,
    UNSUPPORTED,
    NO_TUNNEL,
    NO_VIP,
    OUTCOMES
};

/* IPv4 is in the first word, the others are 0; version keeps it apart from IPv6. */
struct address {
    __u32 version;
    __be32 words[4];
};

/* As `local` and `remote` of a tunnel device, the remote being a prefix: prefix counts the bits of all that follows. */
struct tunnel {
    __u32 prefix;
    struct address local;
    __be32 remote[4];
};

struct outer {
    struct tunnel key;
    __u32 header;  /* bytes */
    __u32 payload; /* bytes, by the header's length field */
    __u8 protocol;
};

/* An empty list is nobody, not everybody: between attach and the first entry nothing is taken in. */
struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 4096);
    __type(key, struct tunnel);
    __type(value, __u8);
} decap_tunnels SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, struct address);
    __type(value, __u8);
} decap_vips SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, OUTCOMES);
    __type(key, __u32);
    __type(value, __u64);
} decap_counts SEC(".maps");

enum { FRAGMENT = 0x3fff }; /* more fragments, and the offset */

/* Whether the sum over a header without options is what it is when the checksum is right. */
static __always_inline int sum_is_right(const struct iphdr *ip)
{
    const __u16 *words = (const __u16 *)ip;
    __u32 sum = 0;

#pragma unroll
    for (unsigned i = 0; i < sizeof(*ip) / 2; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum == 0xffff;
}

static __always_inline enum outcome read_outer4(const struct iphdr *ip, const void *end, struct outer *outer)
{
    __u32 total;

    if ((const void *)(ip + 1) > end)
        return PASSED;
    if (ip->protocol != IPPROTO_IPIP && ip->protocol != IPPROTO_IPV6)
        return PASSED;
    total = bpf_ntohs(ip->tot_len);
    if (ip->version != 4 || ip->ihl < 5 || total < sizeof(*ip) || total > (__u64)(end - (const void *)ip))
        return MALFORMED;
    if (ip->ihl > 5 || ip->frag_off & bpf_htons(FRAGMENT))
        return UNSUPPORTED;
    if (!sum_is_right(ip))
        return MALFORMED;
    outer->key.local.version = 4;
    outer->key.local.words[0] = ip->daddr;
    outer->key.remote[0] = ip->saddr;
    outer->header = sizeof(*ip);
    outer->payload = total - sizeof(*ip);
    outer->protocol = ip->protocol;
    return ip->protocol == IPPROTO_IPIP ? IPV4_IN_IPV4 : IPV6_IN_IPV4;
}

/* Behind an extension header, a fragment's among them, no tunnel is looked for. */
static __always_inline enum outcome read_outer6(const struct ipv6hdr *ip, const void *end, struct outer *outer)
{
    __u32 payload;

    if ((const void *)(ip + 1) > end)
        return PASSED;
    if (ip->nexthdr != IPPROTO_IPIP && ip->nexthdr != IPPROTO_IPV6)
        return PASSED;
    payload = bpf_ntohs(ip->payload_len);
    if (ip->version != 6 || payload > (__u64)(end - (const void *)(ip + 1)))
        return MALFORMED;
    outer->key.local.version = 6;
    __builtin_memcpy(outer->key.local.words, &ip->daddr, sizeof(ip->daddr));
    __builtin_memcpy(outer->key.remote, &ip->saddr, sizeof(ip->saddr));
    outer->header = sizeof(*ip);
    outer->payload = payload;
    outer->protocol = ip->nexthdr;
    return ip->nexthdr == IPPROTO_IPIP ? IPV4_IN_IPV6 : IPV6_IN_IPV6;
}

/* What a balancer for DNS sends. Neighbour discovery and redirects trust who can send on the link, so never ICMP. */
static __always_inline int is_transport(__u8 protocol)
{
    return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

/*
 * The inner packet may be shorter than the outer payload: hardware that encapsulates a frame of minimum size takes its
 * padding along. The kernel cuts it off.
 */
static __always_inline enum outcome read_inner4(const struct iphdr *ip, const void *end, __u32 room,
                                                struct address *vip)
{
    __u32 total;

    if ((const void *)(ip + 1) > end)
        return MALFORMED;
    total = bpf_ntohs(ip->tot_len);
    if (ip->version != 4 || ip->ihl < 5 || total < ip->ihl * 4u || total > room)
        return MALFORMED;
    if (!is_transport(ip->protocol) || ip->frag_off & bpf_htons(FRAGMENT))
        return UNSUPPORTED;
    vip->version = 4;
    vip->words[0] = ip->daddr;
    return PASSED;
}

static __always_inline enum outcome read_inner6(const struct ipv6hdr *ip, const void *end, __u32 room,
                                                struct address *vip)
{
    if ((const void *)(ip + 1) > end || room < sizeof(*ip))
        return MALFORMED;
    if (ip->version != 6 || bpf_ntohs(ip->payload_len) > room - sizeof(*ip))
        return MALFORMED;
    if (!is_transport(ip->nexthdr))
        return UNSUPPORTED;
    vip->version = 6;
    __builtin_memcpy(vip->words, &ip->daddr, sizeof(ip->daddr));
    return PASSED;
}

/* What becomes of the packet; if one of the four, *outer* says how much to take off. Changes nothing. */
static __always_inline enum outcome look(const struct xdp_md *ctx, struct outer *outer)
{
    const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
    const struct ethhdr *eth = data;
    struct address vip = {0};
    enum outcome found, wrong;

    if ((const void *)(eth + 1) > end)
        return PASSED;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        found = read_outer4((const void *)(eth + 1), end, outer);
    else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        found = read_outer6((const void *)(eth + 1), end, outer);
    else
        return PASSED;
    if (found < IPV4_IN_IPV4 || found > IPV6_IN_IPV6)
        return found;
    if (eth->h_dest[0] & 1) /* broadcast and multicast */
        return UNSUPPORTED;
    outer->key.prefix = 8 * (sizeof(outer->key) - sizeof(outer->key.prefix));
    if (!bpf_map_lookup_elem(&decap_tunnels, &outer->key))
        return NO_TUNNEL;

    if (found == IPV4_IN_IPV4)
        wrong = read_inner4(data + sizeof(*eth) + sizeof(struct iphdr), end, outer->payload, &vip);
    else if (found == IPV6_IN_IPV4)
        wrong = read_inner6(data + sizeof(*eth) + sizeof(struct iphdr), end, outer->payload, &vip);
    else if (found == IPV4_IN_IPV6)
        wrong = read_inner4(data + sizeof(*eth) + sizeof(struct ipv6hdr), end, outer->payload, &vip);
    else
        wrong = read_inner6(data + sizeof(*eth) + sizeof(struct ipv6hdr), end, outer->payload, &vip);
    if (wrong != PASSED)
        return wrong;
    return bpf_map_lookup_elem(&decap_vips, &vip) ? found : NO_VIP;
}

/* The Ethernet header moves up to the inner packet, and gets its type. */
static __always_inline int take_off(struct xdp_md *ctx, const struct outer *outer)
{
    struct ethhdr *eth = (void *)(long)ctx->data, kept;

    if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
        return -1;
    kept = *eth;
    kept.h_proto = outer->protocol == IPPROTO_IPIP ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
    if (bpf_xdp_adjust_head(ctx, (int)outer->header) != 0)
        return -1;
    eth = (void *)(long)ctx->data;
    if ((void *)(eth + 1) > (void *)(long)ctx->data_end) /* cannot be, but the verifier does not know */
        return 0;
    *eth = kept;
    return 0;
}

SEC("xdp")
int decap(struct xdp_md *ctx)
{
    struct outer outer = {0};
    enum outcome outcome = look(ctx, &outer);
    __u32 index;
    __u64 *count;

    if (outcome >= IPV4_IN_IPV4 && outcome <= IPV6_IN_IPV6 && take_off(ctx, &outer) != 0)
        outcome = PASSED;
    index = outcome;
    count = bpf_map_lookup_elem(&decap_counts, &index);
    if (count)
        (*count)++; /* per CPU, and nothing interrupts a program on its CPU to run it again */
    return XDP_PASS;
}

char license_text[] SEC("license") = "Apache-2.0";
