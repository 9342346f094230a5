#include "program_check.h"

#include <stdlib.h>
#include <string.h>

static bool same_address(const struct address *one, const struct address *other)
{
    return memcmp(one, other, sizeof(*one)) == 0;
}

static int by_address(const void *one, const void *other)
{
    const struct backend *const *a = one, *const *b = other;
    int order = memcmp(&(*a)->address, &(*b)->address, sizeof((*a)->address));

    return order != 0 ? order : (*a > *b) - (*a < *b); /* they are of one array */
}

/* Sorted: there may be many thousands. */
static bool check_addresses(const struct program *program, struct fault *fault)
{
    const struct backend **sorted = calloc(program->backend_count + 1, sizeof(*sorted));
    bool good = true;

    if (sorted == NULL)
        return fault_set(fault, "no memory for the program");
    for (size_t i = 0; i < program->backend_count; i++)
        sorted[i] = &program->backends[i];
    qsort(sorted, program->backend_count, sizeof(*sorted), by_address);
    for (size_t i = 1; i < program->backend_count && good; i++)
        if (sorted[i]->address.family != 0 && same_address(&sorted[i]->address, &sorted[i - 1]->address))
            good = fault_set(fault, "$.backends[%td].address: found the address of backend %s, expected addresses of "
                             "their own (backend %s)", sorted[i] - program->backends, sorted[i - 1]->name,
                             sorted[i]->name);
    free(sorted);
    return good;
}

static bool check_vips(const struct program *program, struct fault *fault)
{
    for (size_t i = 0; i < program->vip_count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct vip *vip = &program->vips[i], *other = &program->vips[j];

            if (strcmp(vip->name, other->name) == 0)
                return fault_set(fault, "$.vips[%zu].name: found \"%s\", which vip %zu has too, expected names of their "
                                 "own", i, vip->name, j);
            if (same_address(&vip->address, &other->address) && vip->protocol == other->protocol &&
                vip->port == other->port)
                return fault_set(fault, "$.vips[%zu]: found the address, protocol and port of vip %s, expected other "
                                 "ones (vip %s)", i, other->name, vip->name);
        }
    return true;
}

static bool same_answers(const struct vip *one, const struct vip *other)
{
    return other->forward == FORWARD_SIIT && one->port == other->port && one->protocol == other->protocol;
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
                return fault_set(fault, "$.vips[%zu].slots: found backend %s, which answers for vip %s from the same "
                                 "port too, expected backends of its own (vip %s)", i,
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
        bool first = program->vips[i].forward == FORWARD_SIIT;

        for (size_t j = 0; j < i && first; j++)
            first = !same_answers(&program->vips[i], &program->vips[j]);
        good = !first || check_answers_of(program, i, owners, fault);
    }
    free(owners);
    return good;
}

static bool check_backend(const struct program *program, const struct vip *vip, size_t number, unsigned slot,
                          struct fault *fault)
{
    const struct backend *backend = &program->backends[vip->slots[slot]];
    unsigned family = backend->address.family;

    if (vip->forward == FORWARD_L2)
        return true;
    if (family == 0)
        return fault_set(fault, "$.vips[%zu].slots[%u]: found backend %s without an address, expected one with an "
                         "address (vip %s forwards by %s)", number, slot, backend->name, vip->name,
                         forward_name(vip->forward));
    if (vip->forward == FORWARD_SIIT && family != 6)
        return fault_set(fault, "$.vips[%zu].slots[%u]: found backend %s with an IPv4 address, expected an IPv6 address "
                         "(vip %s forwards by siit)", number, slot, backend->name, vip->name);
    if (vip->forward == FORWARD_IPIP &&
        (family == 4 ? program->tunnel_ip4.family : program->tunnel_ip6.family) == 0)
        return fault_set(fault, "$.tunnel: found no IPv%u source address, expected one (vip %s has tunnels to backend "
                         "%s)", family, vip->name, backend->name);
    return true;
}

static bool check_budget(const char *what, unsigned long needed, unsigned given, const char *vip, struct fault *fault)
{
    return needed <= given || fault_set(fault, "$.budgets.%s: found %u, expected %lu or more (vip %s does not fit)",
                                        what, given, needed, vip);
}

static bool check_budgets(const struct program *program, struct fault *fault)
{
    unsigned long slots = 0;

    for (size_t i = 0; i < program->vip_count; i++) {
        const char *name = program->vips[i].name;

        slots += program->vips[i].slot_count;
        if (!check_budget("vips", i + 1, program->budgets.vips, name, fault) ||
            !check_budget("slots", slots, program->budgets.slots, name, fault))
            return false;
    }
    return true;
}

bool program_check(const struct program *program, struct fault *fault)
{
    if (strcmp(program->in, program->out) == 0)
        return fault_set(fault, "$.ports.out: found \"%s\", which is also $.ports.in, expected another device",
                         program->out);
    /* Budgets first: they are what limits the number of VIPs that are compared. */
    if (!check_addresses(program, fault) || !check_budgets(program, fault) || !check_vips(program, fault))
        return false;
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *vip = &program->vips[i];

        if (vip->forward == FORWARD_SIIT && vip->address.family != 4)
            return fault_set(fault, "$.vips[%zu].address: found an IPv6 address, expected an IPv4 address (vip %s "
                             "forwards by siit)", i, vip->name);
        for (unsigned slot = 0; slot < vip->slot_count; slot++)
            if (!check_backend(program, vip, i, slot, fault))
                return false;
    }
    return check_answers(program, fault);
}
