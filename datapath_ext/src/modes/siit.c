/* SPDX-License-Identifier: Apache-2.0 */
/* siit: IPv4 clients, IPv6-only backends. The ordered list's NAT64 element, the only use of it that a public program
 * shows, puts 64:ff9b::/96 in front of both addresses; the next pipe puts the backend's address in. Answers go the
 * other way round, which no public program shows: to IPv4, then the VIP as their source. No state: the client is in
 * the IPv6 address. */
#include "forward.h"

#include <doca_bitfield.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"
#include "siit_answers.h"

static bool check_vip(const struct vip *vip, size_t number, struct fault *fault)
{
    if (vip->address.family != 4)
        return fault_set(fault, "$.vips[%zu].address: found an IPv6 address, expected an IPv4 address (vip %s forwards by "
                         "siit)", number, vip->name);
    return vip->probe == NULL || vip->probe->ip4.family != 0 ||
           fault_set(fault, "$.probe.ipv4: found none, expected the address to which answers to probes are translated "
                     "(vip %s forwards by siit)", vip->name);
}

static bool check_backend(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                          struct fault *fault)
{
    const struct backend *backend = &program->backends[vip->slots[slot]];

    if (!check_backend_address(program, vip, number, slot, fault))
        return false;
    return backend->address.family == 6 ||
           fault_set(fault, "$.vips[%zu].%s[%u]: found backend %s with an IPv4 address, expected an IPv6 address "
                     "(vip %s forwards by siit)", number, vip->probe != NULL ? "probes" : "slots", slot, backend->name, vip->name);
}

static bool same_answers(const struct vip *one, const struct vip *other)
{
    return other->forward == &forward_siit && one->port == other->port && one->protocol == other->protocol &&
           (one->probe != NULL) == (other->probe != NULL);
}

/* An answer from a backend must lead back to one VIP: after translation nothing else tells them apart. `owners` has room
 * for a VIP's number and 1 per backend. */
static bool check_answers_of(const struct program *program, size_t first, size_t *owners, struct fault *fault)
{
    memset(owners, 0, program->backend_count * sizeof(*owners));
    for (size_t i = first; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];

        if (!same_answers(&program->vips[first], vip))
            continue;
        for (unsigned slot = 0; slot < vip->slot_count; slot++) {
            size_t *owner = &owners[vip->slots[slot]];

            if (*owner != 0 && *owner != i + 1)
                return fault_set(fault, "$.vips[%zu].%s: found backend %s, which answers for vip %s from the same "
                                 "port too, expected backends of its own (vip %s)", vip->number,
                                 vip->probe != NULL ? "probes" : "slots",
                                 program->backends[vip->slots[slot]].name, program->vips[*owner - 1].name, vip->name);
            *owner = i + 1;
        }
    }
    return true;
}

static bool check_answers(const struct program *program, struct fault *fault)
{
    size_t *owners = calloc(program->backend_count + 1, sizeof(*owners));
    bool good = true;

    if (owners == NULL)
        return fault_set(fault, "no memory for the program");
    for (size_t i = 0; i < program->vip_count && good; i++) {
        bool first = program->vips[i].forward == &forward_siit;

        for (size_t j = 0; j < i && first; j++)
            first = !same_answers(&program->vips[i], &program->vips[j]);
        good = !first || check_answers_of(program, i, owners, fault);
    }
    free(owners);
    return good;
}

#if COMPAT_HAS_NAT64

static bool open_list(struct flow_port *port, enum doca_flow_l3_type from, struct doca_flow_pipe *next,
                      struct doca_flow_pipe **pipe, struct fault *fault)
{
    /* Not const: the SDK's pointers to them are not. */
    struct doca_flow_nat64_action nat64 = {.original_l3_type = from};
    struct doca_flow_ordered_list_element element = {.type = DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64, .nat64 = &nat64};
    struct doca_flow_ordered_list list = {.size = 1, .elements = &element};
    struct doca_flow_fwd fwd = fwd_pipe(next);
    struct pipe_spec spec = {.name = from == DOCA_FLOW_L3_TYPE_IP4 ? "to-ipv6" : "to-ipv4",
                             .type = DOCA_FLOW_PIPE_ORDERED_LIST, .entries = 1, .list = &list, .fwd = &fwd};

    if (!pipe_create(port, &spec, pipe, fault))
        return false;
    if (flow_queued(port, compat_list_add(*pipe, &list, port, NULL), fault, "adding the list that translates") &&
        flow_wait(port, fault))
        return true;
    pipe_discard(port, pipe);
    return false;
}

/* Behind the translation: the mark is the key, u32[0..2] are gone. */
static bool open_rewrite(struct flow_port *port, struct doca_flow_actions *template, struct doca_flow_actions *other,
                         uint32_t entries, uint16_t leave_by, const char *name, struct doca_flow_pipe **pipe,
                         struct fault *fault)
{
    struct doca_flow_match match = {0}, mask = {.meta = {.pkt_meta = UINT32_MAX}};
    struct doca_flow_fwd fwd = fwd_port(leave_by), drop = fwd_drop();
    struct pipe_spec spec = {.name = name, .type = DOCA_FLOW_PIPE_BASIC, .miss_counter = true, .entries = entries,
                             .match = &match, .mask = &mask, .templates = {template, other},
                             .template_count = other != NULL ? 2 : 1, .fwd = &fwd, .miss = &drop};

    return pipe_create(port, &spec, pipe, fault);
}

static bool open_pipes(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                       struct fault *fault)
{
    struct flow_port *in = &flow->ports[PORT_IN], *out = &flow->ports[PORT_OUT];
    struct address all4 = {.family = 4}, all6 = {.family = 6};
    struct doca_flow_actions query = {0}, answer = {0}, to_probe = {0};
    struct doca_flow_pipe **pipe = pipes->pipes;

    if (budgets->backends == 0)
        return fault_set(fault, "$.budgets.backends: found 0, expected one or more for translations");
    memset(all4.bytes, 0xff, 4);
    memset(all6.bytes, 0xff, 16);
    query.meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN);
    memset(query.outer.eth.dst_mac, 0xff, 6);
    put_destination(&query.outer, &all6);
    put_source(&answer.outer, &all4);
    put_source(&to_probe.outer, &all4);
    memset(to_probe.outer.eth.dst_mac, 0xff, 6);
    return (pipe[SIIT_TRANSLATED] != NULL ||
            open_rewrite(in, &query, NULL, budgets_target_entries(budgets), PORT_OUT, "translated", &pipe[SIIT_TRANSLATED], fault)) &&
           (pipe[SIIT_TO_IP6] != NULL ||
            open_list(in, DOCA_FLOW_L3_TYPE_IP4, pipe[SIIT_TRANSLATED], &pipe[SIIT_TO_IP6], fault)) &&
           (pipe[SIIT_ANSWERS] != NULL ||
            open_rewrite(out, &answer, &to_probe, SERVICES_PER_VIP * budgets->vips, PORT_IN, "answers",
                          &pipe[SIIT_ANSWERS], fault)) &&
           (pipe[SIIT_TO_IP4] != NULL ||
            open_list(out, DOCA_FLOW_L3_TYPE_IP6, pipe[SIIT_ANSWERS], &pipe[SIIT_TO_IP4], fault));
}

#else

static bool open_pipes(struct forward_pipes *pipes, struct flow *flow, const struct budgets *budgets,
                       struct fault *fault)
{
    (void)pipes;
    (void)flow;
    (void)budgets;
    return fault_set(fault, "forward siit needs DOCA 3.3, whose ordered lists translate; this is DOCA %s",
                     DOCA_VERSION_STRING);
}

#endif

static struct doca_flow_fwd slots_fwd(const struct forward_pipes *pipes)
{
    return fwd_list(pipes->pipes[SIIT_TO_IP6]);
}

static struct target_headers query_headers(const struct program *program, const struct backend *backend)
{
    struct target_headers headers = {.dst = backend->address};

    (void)program;
    memcpy(headers.dst_mac, backend->mac, 6);
    return headers;
}

static void fill_query(const struct target_headers *headers, struct doca_flow_actions *actions)
{
    memset(actions, 0, sizeof(*actions));
    actions->meta.pkt_meta = DOCA_HTOBE32(MARK_PLAIN); /* as in the template: see fill_entry() of ipip.c */
    memcpy(actions->outer.eth.dst_mac, headers->dst_mac, 6);
    put_destination(&actions->outer, &headers->dst);
}

static bool add_translation(const struct forward_pipes *pipes, struct flow_port *in, uint32_t mark, unsigned inner,
                            const struct target_headers *headers, struct doca_flow_pipe_entry **entry,
                            struct fault *fault)
{
    struct doca_flow_match match = {.meta = {.pkt_meta = DOCA_HTOBE32(mark)}};
    struct doca_flow_actions actions;

    (void)inner; /* always IPv4 */
    fill_query(headers, &actions);
    return flow_queued(in, compat_basic_add(pipes->pipes[SIIT_TRANSLATED], &match, 0, &actions, in, entry), fault,
                       "adding a translation");
}

static bool update_translation(const struct forward_pipes *pipes, struct flow_port *in, unsigned inner,
                               const struct target_headers *headers, struct doca_flow_pipe_entry *entry,
                               struct fault *fault)
{
    struct doca_flow_actions actions;

    (void)inner;
    fill_query(headers, &actions);
    return update_entry(in, pipes->pipes[SIIT_TRANSLATED], 0, &actions, entry, fault, "updating a translation");
}

static const struct target_ops targets = {
    .port = PORT_IN,
    .headers = query_headers,
    .add = add_translation,
    .update = update_translation,
};

const struct forward_ops forward_siit = {
    .name = "siit",
    .check_vip = check_vip,
    .check_backend = check_backend,
    .check_program = check_answers,
    .open = open_pipes,
    .slots_fwd = slots_fwd,
    .drop_pipes = 1U << SIIT_TRANSLATED | 1U << SIIT_ANSWERS,
    .slot_template = slot_mark_template,
    .slot_content = slot_mark_content,
    .slot_actions = slot_mark_actions,
    .slot_report = slot_mark_report,
    .targets = &targets,
    .answers = &siit_answers,
};
