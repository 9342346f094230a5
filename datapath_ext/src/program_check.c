/* SPDX-License-Identifier: Apache-2.0 */
#include "program_check.h"

#include <stdlib.h>
#include <string.h>

#include "forward.h"

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

            if (vip->number == other->number)
                continue; /* the VIP, and its probes */
            if (strcmp(vip->name, other->name) == 0)
                return fault_set(fault, "$.vips[%zu].name: found \"%s\", which vip %zu has too, expected names of their "
                                 "own", vip->number, vip->name, other->number);
            if (same_address(&vip->address, &other->address) && vip->protocol == other->protocol &&
                vip->port == other->port)
                return fault_set(fault, "$.vips[%zu]: found the address, protocol and port of vip %s, expected other "
                                 "ones (vip %s)", vip->number, other->name, vip->name);
        }
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
        if (!check_budget("vips", program->vips[i].number + 1, program->budgets.vips, name, fault) ||
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

        if (vip->forward->check_vip != NULL && !vip->forward->check_vip(vip, vip->number, fault))
            return false;
        for (unsigned slot = 0; slot < vip->slot_count && vip->forward->check_backend != NULL; slot++)
            if (!vip->forward->check_backend(program, vip, vip->number, slot, fault))
                return false;
    }
    for (size_t i = 0; i < FORWARD_MODE_COUNT; i++)
        if (forward_modes[i]->check_program != NULL && !forward_modes[i]->check_program(program, fault))
            return false;
    return true;
}
