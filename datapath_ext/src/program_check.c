#include "program_check.h"

#include <stdlib.h>
#include <string.h>

static bool same_address(const struct address *one, const struct address *other)
{
    return memcmp(one, other, sizeof(*one)) == 0;
}

static bool check_names(const struct program *program, struct fault *fault)
{
    for (size_t i = 0; i < program->backend_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(program->backends[i].name, program->backends[j].name) == 0)
                return fault_set(fault, "$.backends[%zu].name: found \"%s\", which backend %zu has too, expected names "
                                 "of their own", i, program->backends[i].name, j);
            else if (program->backends[i].address.family != 0 &&
                     same_address(&program->backends[i].address, &program->backends[j].address))
                return fault_set(fault, "$.backends[%zu].address: found the address of backend %s, expected addresses "
                                 "of their own (backend %s)", i, program->backends[j].name, program->backends[i].name);
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

/* An answer from a backend must lead back to one VIP: after translation nothing else tells them apart. */
static bool check_answers_of(const struct program *program, size_t number, bool *mine, struct fault *fault)
{
    const struct vip *vip = &program->vips[number];

    memset(mine, 0, program->backend_count * sizeof(*mine));
    for (unsigned slot = 0; slot < vip->slot_count; slot++)
        mine[vip->slots[slot]] = true;
    for (size_t i = 0; i < number; i++) {
        const struct vip *other = &program->vips[i];

        if (other->forward != FORWARD_SIIT || vip->port != other->port || vip->protocol != other->protocol)
            continue;
        for (unsigned slot = 0; slot < other->slot_count; slot++)
            if (mine[other->slots[slot]])
                return fault_set(fault, "$.vips[%zu].slots: found backend %s, which answers for vip %s from the same "
                                 "port too, expected backends of its own (vip %s)", number,
                                 program->backends[other->slots[slot]].name, other->name, vip->name);
    }
    return true;
}

static bool check_answers(const struct program *program, struct fault *fault)
{
    bool *mine = calloc(program->backend_count + 1, sizeof(*mine)), good = true;

    if (mine == NULL)
        return fault_set(fault, "no memory for the program");
    for (size_t i = 0; i < program->vip_count && good; i++)
        if (program->vips[i].forward == FORWARD_SIIT)
            good = check_answers_of(program, i, mine, fault);
    free(mine);
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
    if (!check_names(program, fault) || !check_budgets(program, fault))
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
