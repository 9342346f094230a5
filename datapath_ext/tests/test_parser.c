/* SPDX-License-Identifier: Apache-2.0 */
/* Every bit that the parser reports, for every stack of IPv4, IPv6, TCP and UDP, alone, in VXLAN and in IP-in-IP, whole,
 * in fragments, and with each checksum and each length wrong: as flow_parser_meta's packets and texts have them. Like
 * that program, three pipes: a control pipe for what is valid, then one for checksums, then one for lengths. */
#include "testbed.h"

enum {
    BAD_SUM3 = 1 << 0,
    BAD_SUM4 = 1 << 1,
    BAD_LEN3 = 1 << 2,
    BAD_LEN4 = 1 << 3,
    NO_SUM4 = 1 << 4, /* UDP with a checksum of 0 */
    MORE = 1 << 5,    /* more fragments follow */
};
enum { NONE = 0, TCP = 6, UDP = 17, STACKS_MAX = 256, LENGTH_ERRORS = 30, CHECKSUM_ERRORS = 120, VALID = 31 };

struct header {
    unsigned ip; /* 4, 6, or 0 for no such header */
    unsigned l4;
    unsigned bad;
};

struct stack {
    struct header outer, inner;
};

static struct stack stacks[STACKS_MAX];
static size_t stack_count;

static const struct header plain[] = {{4, NONE, 0}, {4, TCP, 0}, {4, UDP, 0}, {6, NONE, 0}, {6, TCP, 0}, {6, UDP, 0}};
static const struct header none;

static void add_stack(struct header outer, unsigned outer_bad, struct header inner, unsigned inner_bad)
{
    assert_true(stack_count < STACKS_MAX);
    outer.bad = outer_bad;
    inner.bad = inner_bad;
    stacks[stack_count++] = (struct stack){outer, inner};
}

static bool can_have(struct header header, unsigned bad)
{
    return ((bad & BAD_SUM3) == 0 || header.ip == 4) && ((bad & (BAD_SUM4 | BAD_LEN4)) == 0 || header.l4 != NONE) &&
           ((bad & BAD_LEN3) == 0 || (header.ip != 0 && header.l4 == NONE));
}

static bool carries(struct header header)
{
    return header.l4 != TCP; /* UDP: in VXLAN; nothing: in IP-in-IP */
}

static const unsigned sums[] = {0, BAD_SUM3, BAD_SUM4, BAD_SUM3 | BAD_SUM4};
static const unsigned lengths[] = {BAD_LEN3, BAD_LEN4};

static void add_stacks(const unsigned *bad, size_t count, bool on_outer)
{
    for (size_t o = 0; o < 6; o++)
        for (size_t i = 0; i < count; i++)
            if (bad[i] != 0 && can_have(plain[o], bad[i]))
                add_stack(plain[o], bad[i], none, 0);
    for (size_t o = 0; o < 6; o++)
        for (size_t n = 0; carries(plain[o]) && n < 6; n++)
            for (size_t a = 0; a < (on_outer ? count : 1); a++)
                for (size_t b = 0; b < count; b++)
                    if (((on_outer && bad[a] != 0) || bad[b] != 0) && (!on_outer || can_have(plain[o], bad[a])) &&
                        can_have(plain[n], bad[b]))
                        add_stack(plain[o], on_outer ? bad[a] : 0, plain[n], bad[b]);
}

static void add_valid(void)
{
    add_stack(none, 0, none, 0);
    for (size_t o = 0; o < 6; o++)
        add_stack(plain[o], 0, none, 0);
    for (size_t o = 0; o < 6; o++)
        for (size_t n = 0; carries(plain[o]) && n < 6; n++)
            add_stack(plain[o], 0, plain[n], 0);
}

/* What the parser should say, from what was built and not from bytes. */
static struct doca_flow_parser_meta bits_of(const struct stack *stack)
{
    const struct header *header[2] = {&stack->outer, &stack->inner};
    struct {
        enum doca_flow_l3_meta l3;
        enum doca_flow_l4_meta l4;
        uint8_t fragment, l3_ok, sum3_ok, l4_ok, sum4_ok;
    } side[2];

    for (unsigned i = 0; i < 2; i++) {
        unsigned bad = header[i]->bad;

        memset(&side[i], 0, sizeof(side[i]));
        side[i].l3 = header[i]->ip == 4   ? DOCA_FLOW_L3_META_IPV4
                     : header[i]->ip == 6 ? DOCA_FLOW_L3_META_IPV6
                                          : DOCA_FLOW_L3_META_NONE;
        side[i].l4 = header[i]->l4 == TCP   ? DOCA_FLOW_L4_META_TCP
                     : header[i]->l4 == UDP ? DOCA_FLOW_L4_META_UDP
                                            : DOCA_FLOW_L4_META_NONE;
        side[i].l3_ok = header[i]->ip != 0 && (bad & BAD_LEN3) == 0;
        side[i].sum3_ok = header[i]->ip == 4 && (bad & BAD_SUM3) == 0; /* IPv6 has none */
        side[i].l4_ok = header[i]->l4 != NONE && (bad & BAD_LEN4) == 0;
        side[i].sum4_ok = side[i].l4_ok && (bad & BAD_SUM4) == 0;
        side[i].fragment = (bad & MORE) != 0;
    }
    return (struct doca_flow_parser_meta){
        .outer_l3_type = side[0].l3, .outer_l4_type = side[0].l4, .outer_ip_fragmented = side[0].fragment,
        .outer_l3_ok = side[0].l3_ok, .outer_ip4_checksum_ok = side[0].sum3_ok, .outer_l4_ok = side[0].l4_ok,
        .outer_l4_checksum_ok = side[0].sum4_ok, .inner_l3_type = side[1].l3, .inner_l4_type = side[1].l4,
        .inner_ip_fragmented = side[1].fragment, .inner_l3_ok = side[1].l3_ok,
        .inner_ip4_checksum_ok = side[1].sum3_ok, .inner_l4_ok = side[1].l4_ok,
        .inner_l4_checksum_ok = side[1].sum4_ok};
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* A 16-bit word of the frame, and what covers it: the checksum of an outer UDP header, if there is one (RFC 1624). */
static void patch(struct frame *frame, size_t at, unsigned value, size_t outer_sum)
{
    unsigned was = (unsigned)frame->bytes[at] << 8 | frame->bytes[at + 1];

    put16(frame->bytes + at, value);
    if (outer_sum != 0) {
        unsigned sum = ((unsigned)frame->bytes[outer_sum] << 8 | frame->bytes[outer_sum + 1]) ^ 0xffff;

        sum += (was ^ 0xffff) + value;
        while (sum > 0xffff)
            sum = (sum & 0xffff) + (sum >> 16);
        put16(frame->bytes + outer_sum, sum ^ 0xffff);
    }
}

static void spoil(struct frame *frame, struct header header, size_t ip, size_t l4, size_t outer_sum)
{
    size_t sum4 = l4 + (header.l4 == TCP ? 16 : 6);

    if (header.bad & BAD_SUM3)
        patch(frame, ip + 10, 0x1234, outer_sum);
    if (header.bad & BAD_SUM4)
        patch(frame, sum4, 0x1234, outer_sum);
    if (header.bad & NO_SUM4)
        patch(frame, sum4, 0, outer_sum);
    if (header.bad & BAD_LEN3)
        patch(frame, ip + (header.ip == 4 ? 2 : 4), header.ip == 4 ? 10 : 9999, outer_sum);
    if (header.bad & BAD_LEN4)
        patch(frame, l4 + (header.l4 == TCP ? 12 : 4), header.l4 == TCP ? 0x2002 : 4, outer_sum);
}

static void put_header(struct frame *frame, struct header header, uint8_t carried, size_t *ip, size_t *l4)
{
    uint8_t proto = (uint8_t)(header.l4 != NONE ? header.l4 : carried);

    *ip = frame->length;
    if (header.ip == 4)
        frame_ip(frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = proto,
                                    .fragment = header.bad & MORE ? 0x2000 : 0});
    else
        frame_ip(frame, (struct ip){.src = "2001:db8::1", .dst = "2001:db8::2", .proto = proto});
    *l4 = frame->length;
    if (header.l4 == TCP)
        frame_tcp(frame, 1000, 2000);
    else if (header.l4 == UDP)
        frame_udp(frame, 1000, carried != 0 ? 4789 : 2000);
}

static uint16_t type_of(struct header header)
{
    return header.ip == 4 ? 0x0800 : header.ip == 6 ? 0x86dd : 0x88b5;
}

static void build(struct frame *frame, const struct stack *stack)
{
    /* 253 is for experiments: nothing that any parser knows. */
    uint8_t carried = stack->inner.ip == 4 ? 4 : stack->inner.ip == 6 ? 41 : 253;
    size_t ip[2] = {0}, l4[2] = {0}, outer_sum;

    frame_start(frame);
    frame_eth(frame, "02:00:00:00:00:01", "02:00:00:00:00:02", type_of(stack->outer));
    if (stack->outer.ip != 0)
        put_header(frame, stack->outer, stack->outer.l4 == UDP && stack->inner.ip == 0 ? 0 : carried, &ip[0], &l4[0]);
    if (stack->inner.ip != 0) {
        if (stack->outer.l4 == UDP) {
            frame_vxlan(frame, 7);
            frame_eth(frame, "02:00:00:00:00:03", "02:00:00:00:00:04", type_of(stack->inner));
        }
        put_header(frame, stack->inner, stack->inner.l4 == UDP ? 0 : 253, &ip[1], &l4[1]);
    }
    frame_text(frame, "even payload");
    frame_finish(frame);
    outer_sum = stack->outer.l4 == UDP ? l4[0] + 6 : 0;
    spoil(frame, stack->inner, ip[1], l4[1], outer_sum);
    spoil(frame, stack->outer, ip[0], l4[0], 0);
}

/* Which bits the pipe for lengths looks at: a wrong length says nothing of the checksums. */
static struct doca_flow_match wanted(bool checksums)
{
    struct doca_flow_match mask = {0};

    mask.parser_meta = (struct doca_flow_parser_meta){
        .outer_l3_type = (enum doca_flow_l3_meta)UINT32_MAX, .outer_l4_type = (enum doca_flow_l4_meta)UINT32_MAX,
        .outer_ip_fragmented = UINT8_MAX, .outer_l3_ok = UINT8_MAX, .outer_l4_ok = UINT8_MAX,
        .inner_l3_type = (enum doca_flow_l3_meta)UINT32_MAX, .inner_l4_type = (enum doca_flow_l4_meta)UINT32_MAX,
        .inner_ip_fragmented = UINT8_MAX, .inner_l3_ok = UINT8_MAX, .inner_l4_ok = UINT8_MAX};
    if (checksums) {
        mask.parser_meta.outer_ip4_checksum_ok = mask.parser_meta.outer_l4_checksum_ok = UINT8_MAX;
        mask.parser_meta.inner_ip4_checksum_ok = mask.parser_meta.inner_l4_checksum_ok = UINT8_MAX;
    }
    return mask;
}

static struct doca_flow_pipe *errors_pipe(const char *name, bool checksums, struct doca_flow_pipe *next)
{
    struct doca_flow_match match = {0}, mask = wanted(checksums);
    struct doca_flow_actions actions = {.meta.pkt_meta = UINT32_MAX}, *templates[] = {&actions};
    struct doca_flow_fwd drop = to_drop(), miss = to_pipe(next);
    struct doca_flow_pipe_cfg *cfg = testbed_cfg(0, name, DOCA_FLOW_PIPE_BASIC, false);

    /* All ones where the mask is 0 too, as public programs write it. */
    memset(&match.parser_meta, 0xff, sizeof(match.parser_meta));
    assert_doca_ok(doca_flow_pipe_cfg_set_match(cfg, &match, &mask));
    assert_doca_ok(doca_flow_pipe_cfg_set_actions(cfg, templates, NULL, NULL, 1));
    return testbed_create(cfg, &drop, next != NULL ? &miss : NULL);
}

/* Adds what is in stacks[] from `from` on, without processing any. */
static void add_errors(struct doca_flow_pipe *pipe, size_t from, struct seen *seen)
{
    for (size_t i = from; i < stack_count; i++) {
        struct doca_flow_match match = {.parser_meta = bits_of(&stacks[i])};
        struct doca_flow_actions actions = {.meta.pkt_meta = DOCA_HTOBE32((uint32_t)i)};
        struct doca_flow_fwd drop = to_drop();

        assert_doca_ok(doca_flow_pipe_basic_add_entry(0, pipe, &match, 0, &actions, NULL, &drop, 0, seen, NULL));
    }
}

static void control_add(struct doca_flow_pipe *root, const struct doca_flow_match *match,
                        const struct doca_flow_match *mask, uint32_t mark, uint32_t priority,
                        const struct doca_flow_fwd *fwd)
{
    struct doca_flow_actions actions = {.meta.pkt_meta = DOCA_HTOBE32(mark)};
    struct doca_flow_actions actions_mask = {.meta.pkt_meta = UINT32_MAX};

    assert_doca_ok(doca_flow_pipe_control_add_entry(0, root, match, mask, NULL, &actions, &actions_mask, NULL, NULL,
                                                    priority, fwd, NULL, NULL));
}

enum { MARK_OUTER = 1000, MARK_INNER };

static void expect(const struct stack *stack, enum doca_flow_model_verdict verdict, uint32_t mark)
{
    struct frame *frame = malloc(sizeof(*frame));
    struct doca_flow_model_result result;

    assert_true(frame != NULL);
    build(frame, stack);
    result = testbed_send(0, frame, verdict);
    if (result.outputs[0].pkt_meta != mark)
        (void)fprintf(stderr, "IPv%u %u bad %u, IPv%u %u bad %u: %s\n", stack->outer.ip, stack->outer.l4,
                      stack->outer.bad, stack->inner.ip, stack->inner.l4, stack->inner.bad, result.outputs[0].reason);
    assert_int_equal(result.outputs[0].pkt_meta, mark);
    doca_flow_model_result_free(&result);
    free(frame);
}

static void reports_what_public_packets_show(void **state)
{
    struct doca_flow_match all = wanted(true), fragments = {0}, match = {0};
    struct doca_flow_fwd one = to_port(1), rss = {.type = DOCA_FLOW_FWD_RSS}, errors;
    struct doca_flow_pipe *root, *sums_pipe, *lengths_pipe;
    struct seen seen = {0};
    uint16_t queue = 0;
    size_t valid, bad_sums;

    testbed_up("vnf,hws", 2);
    stack_count = 0;
    lengths_pipe = errors_pipe("lengths", false, NULL);
    sums_pipe = errors_pipe("checksums", true, lengths_pipe);
    root = testbed_create(testbed_cfg(0, "root", DOCA_FLOW_PIPE_CONTROL, true), NULL, NULL);

    add_valid();
    valid = stack_count;
    assert_int_equal(valid, VALID);
    for (size_t i = 0; i < valid; i++) {
        match.parser_meta = bits_of(&stacks[i]);
        control_add(root, &match, &all, (uint32_t)i, 0, &one);
    }
    rss.rss_type = DOCA_FLOW_RESOURCE_TYPE_NON_SHARED;
    rss.rss.nr_queues = 1;
    rss.rss.queues_array = &queue;
    fragments.parser_meta.outer_ip_fragmented = fragments.parser_meta.inner_ip_fragmented = UINT8_MAX;
    match.parser_meta = (struct doca_flow_parser_meta){.outer_ip_fragmented = 1};
    control_add(root, &match, &fragments, MARK_OUTER, 1, &rss);
    match.parser_meta = (struct doca_flow_parser_meta){.inner_ip_fragmented = 1};
    control_add(root, &match, &fragments, MARK_INNER, 1, &rss);
    errors = to_pipe(sums_pipe);
    assert_doca_ok(doca_flow_pipe_control_add_entry(0, root, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, &errors, NULL,
                                                    NULL));

    add_stacks(sums, 4, true);
    bad_sums = stack_count;
    assert_int_equal(bad_sums - valid, CHECKSUM_ERRORS);
    add_errors(sums_pipe, valid, &seen);
    add_stacks(lengths, 2, false);
    assert_int_equal(stack_count - bad_sums, LENGTH_ERRORS);
    add_errors(lengths_pipe, bad_sums, &seen);
    assert_int_equal(seen.adds, 0);
    assert_doca_ok(doca_flow_entries_process(testbed_port[0], 0, 0, 250));
    assert_int_equal(seen.adds, CHECKSUM_ERRORS + LENGTH_ERRORS);
    assert_int_equal(seen.errors, 0);

    for (size_t i = 0; i < stack_count; i++)
        expect(&stacks[i], i < valid ? DOCA_FLOW_MODEL_SENT : DOCA_FLOW_MODEL_DROPPED, (uint32_t)i);
    expect(&(struct stack){{4, NONE, MORE}, none}, DOCA_FLOW_MODEL_QUEUED, MARK_OUTER);
    expect(&(struct stack){{4, UDP, MORE}, none}, DOCA_FLOW_MODEL_QUEUED, MARK_OUTER);
    expect(&(struct stack){{4, UDP, 0}, {4, TCP, MORE}}, DOCA_FLOW_MODEL_QUEUED, MARK_INNER);
    expect(&(struct stack){{6, NONE, 0}, {4, NONE, MORE}}, DOCA_FLOW_MODEL_QUEUED, MARK_INNER);
    /* A UDP checksum of 0 is a good one, in IPv6 inside of a tunnel too: these are valid stacks. */
    for (size_t i = 0; i < valid; i++) {
        struct stack stack = stacks[i];

        if (stack.inner.l4 != UDP)
            continue;
        stack.inner.bad = NO_SUM4;
        expect(&stack, DOCA_FLOW_MODEL_SENT, (uint32_t)i);
    }
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_what_public_packets_show),
    };

    return cmocka_run_group_tests_name("parser", tests, NULL, NULL);
}
