/* SPDX-License-Identifier: Apache-2.0 */
/* From a template and an entry's actions to the operations that packets get. */
#include <stdlib.h>
#include <string.h>

#include "actions.h"
#include "bytes.h"
#include "core.h"
#include "shared.h"

struct compilation {
    const struct action_template *shape;
    enum compile_mode mode;
    const struct doca_flow_actions *entry;
    struct action_set *set;
};

static const uint8_t *value_in(const struct doca_flow_actions *actions, struct place place)
{
    return (const uint8_t *)actions + section_in_actions(place.section) + place.field->offset;
}

static doca_error_t add_op(struct action_set *set, const struct op *op)
{
    struct op *ops = realloc(set->ops, (set->op_count + 1) * sizeof(*ops));

    if (ops == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for actions");
    set->ops = ops;
    ops[set->op_count++] = *op;
    return DOCA_SUCCESS;
}

/* `wanted` has the bits that count: the mask, or the values where there is none. */
static doca_error_t check_known(const struct doca_flow_actions *actions, const struct doca_flow_actions *wanted)
{
    if (actions->has_crypto_encap || actions->crypto.action_type != DOCA_FLOW_CRYPTO_ACTION_NONE)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "actions with cryptography; the model has none");
    if (!bytes_are(&wanted->parser_meta, sizeof(wanted->parser_meta), 0))
        return refuse(DOCA_ERROR_INVALID_VALUE, "actions that set parser_meta; it is read-only");
    if (actions->outer.l4_type_ext == DOCA_FLOW_L4_TYPE_EXT_ROCE_V2 &&
        !bytes_are(&wanted->outer.roce_v2, sizeof(wanted->outer.roce_v2), 0))
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "actions on RoCE headers; the model does not parse them");
    if (actions->tun.type != DOCA_FLOW_TUN_NONE && !bytes_are(&wanted->tun, sizeof(wanted->tun), 0) &&
        (actions->tun.type != DOCA_FLOW_TUN_VXLAN || actions->tun.vxlan_type != DOCA_FLOW_TUN_EXT_VXLAN_STANDARD))
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "actions on the header of tunnel type %d; the model modifies plain "
                      "VXLAN only", (int)actions->tun.type);
    if (actions->has_push && actions->push.type != DOCA_FLOW_PUSH_ACTION_VLAN)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "push of type %d; the model pushes VLAN tags", (int)actions->push.type);
    if ((unsigned)actions->nat64.original_l3_type > DOCA_FLOW_L3_TYPE_IP6)
        return refuse(DOCA_ERROR_INVALID_VALUE, "nat64.original_l3_type %u",
                      (unsigned)actions->nat64.original_l3_type);
    return DOCA_SUCCESS;
}

/* Whether an ADD descriptor has the field as its target: then its value is an addend, not a new value. */
static bool is_added_to(const struct action_template *shape, struct place place)
{
    for (unsigned i = 0; i < shape->desc_count; i++) {
        const struct doca_flow_action_desc *desc = &shape->descs[i];
        unsigned bit = desc->field_op.dst.bit_offset;
        struct place dst;

        if (desc->type == DOCA_FLOW_ACTION_ADD && desc->field_op.dst.field_string != NULL &&
            place_find(desc->field_op.dst.field_string, &bit, desc->field_op.width, &dst) &&
            dst.section == place.section && dst.field == place.field)
            return true;
    }
    return false;
}

static doca_error_t compile_field(struct compilation *work, struct place place)
{
    const struct action_template *shape = work->shape;
    const uint8_t *value = value_in(&shape->actions, place);
    const uint8_t *mask = shape->has_mask ? value_in(&shape->mask, place) : NULL;
    size_t size = place.field->size;
    struct op op = {.kind = OP_SET, .dst = place};

    if (is_added_to(shape, place))
        return DOCA_SUCCESS;
    memset(op.mask, 0xff, sizeof(op.mask));
    if (mask != NULL)
        memcpy(op.mask, mask, size);
    if (mask != NULL ? bytes_are(mask, size, 0) : bytes_are(value, size, 0))
        return DOCA_SUCCESS;
    if (place.section == SECTION_META && place.field->offset / sizeof(doca_be32_t) > 5) {
        doca_error_t result = unproven("an action on meta.u32[%zu]; only words 0 to 4 are there on all hardware",
                                       place.field->offset / sizeof(doca_be32_t) - 1);

        if (result != DOCA_SUCCESS)
            return result;
    }
    if (work->mode != COMPILE_LITERAL && field_all_ones(place.field, value)) {
        if (work->mode == COMPILE_SHAPE)
            return DOCA_SUCCESS;
        if (work->entry == NULL)
            return refuse(DOCA_ERROR_INVALID_VALUE, "no actions, but the template leaves %s to the entry",
                          place_name(place));
        value = value_in(work->entry, place);
    }
    memcpy(op.value, value, size);
    return add_op(work->set, &op);
}

static doca_error_t compile_fields(struct compilation *work)
{
    const struct action_template *shape = work->shape;
    enum doca_flow_l3_type l3 = shape->actions.outer.l3_type;
    enum doca_flow_l4_type_ext l4 = shape->actions.outer.l4_type_ext;
    static const enum section order[] = {SECTION_META, SECTION_OUTER, SECTION_TUN};
    doca_error_t result = DOCA_SUCCESS;

    if (l3 == DOCA_FLOW_L3_TYPE_NONE)
        l3 = shape->mask.outer.l3_type;
    if (l4 == DOCA_FLOW_L4_TYPE_EXT_NONE)
        l4 = shape->mask.outer.l4_type_ext;
    for (size_t s = 0; s < sizeof(order) / sizeof(order[0]) && result == DOCA_SUCCESS; s++) {
        size_t count;
        const struct field *fields = section_fields(order[s], &count);

        if (order[s] == SECTION_TUN && shape->actions.tun.type != DOCA_FLOW_TUN_VXLAN)
            continue;
        for (size_t i = 0; i < count && result == DOCA_SUCCESS; i++)
            if (order[s] != SECTION_OUTER || field_selected(&fields[i], l3, l4))
                result = compile_field(work, (struct place){order[s], &fields[i]});
    }
    return result;
}

static doca_error_t find(const struct doca_flow_desc_field *field, unsigned width, const char *what, unsigned *bit,
                         struct place *place)
{
    *bit = field->bit_offset;
    if (field->field_string == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "action descriptor without a %s field", what);
    if (width == 0 || width > 8 * FIELD_MAX || !place_find(field->field_string, bit, width, place))
        return refuse(DOCA_ERROR_INVALID_VALUE, "action descriptor: no %s field %s with %u bits from bit %u", what,
                      field->field_string, width, field->bit_offset);
    if (!place_is_proven(field->field_string))
        return unproven("action descriptor on %s, which no public program uses", field->field_string);
    return DOCA_SUCCESS;
}

/* Sources that the same template has written before: nobody has said that such steps see each other. */
static doca_error_t check_sequence(const struct action_set *set, const struct op *op)
{
    for (size_t i = 0; i < set->op_count; i++)
        if (op->has_src && set->ops[i].dst.section == op->src.section && set->ops[i].dst.field == op->src.field)
            return unproven("a descriptor that reads %s, which the same template writes", place_name(op->src));
    return DOCA_SUCCESS;
}

static doca_error_t compile_desc(struct compilation *work, const struct doca_flow_action_desc *desc)
{
    struct op op = {.width = desc->field_op.width, .has_src = desc->field_op.src.field_string != NULL};
    doca_error_t result;

    if (desc->type == DOCA_FLOW_ACTION_AUTO)
        return DOCA_SUCCESS;
    if (desc->type != DOCA_FLOW_ACTION_ADD && desc->type != DOCA_FLOW_ACTION_COPY)
        return refuse(DOCA_ERROR_INVALID_VALUE, "action descriptor of type %d", (int)desc->type);
    op.kind = desc->type == DOCA_FLOW_ACTION_ADD ? OP_ADD : OP_COPY;
    result = find(&desc->field_op.dst, op.width, "target", &op.dst_bit, &op.dst);
    if (result == DOCA_SUCCESS && (op.kind == OP_COPY || op.has_src)) {
        op.has_src = true;
        result = find(&desc->field_op.src, op.width, "source", &op.src_bit, &op.src);
    }
    if (result != DOCA_SUCCESS)
        return result;
    if (op.dst.section != SECTION_META && op.dst.section != SECTION_OUTER)
        return refuse(DOCA_ERROR_INVALID_VALUE, "action descriptor that writes %s; meta data and outer headers can "
                      "be written", desc->field_op.dst.field_string);
    if (op.width < 128 && (op.dst.field->width == 128 || (op.has_src && op.src.field->width == 128)))
        result = unproven("a descriptor on part of an IPv6 address; the order of its halves is not known");
    if (result == DOCA_SUCCESS)
        result = check_sequence(work->set, &op);
    if (result != DOCA_SUCCESS)
        return result;
    if (op.kind == OP_ADD && !op.has_src) {
        const uint8_t *own = value_in(&work->shape->actions, op.dst);

        /* A constant of the template, even of all ones: that is how -1 is written. 0 leaves it to the entry. */
        if (bytes_are(own, op.dst.field->size, 0) && work->entry != NULL && work->mode == COMPILE_ENTRY) {
            result = unproven("an addend that the entry brings; public programs put it into the template");
            own = value_in(work->entry, op.dst);
        }
        memcpy(op.value, own, op.dst.field->size);
    }
    return result == DOCA_SUCCESS ? add_op(work->set, &op) : result;
}

static doca_error_t compile_decap(struct compilation *work)
{
    const struct doca_flow_actions *shape = &work->shape->actions;
    struct action_set *set = work->set;

    if (shape->decap_type == DOCA_FLOW_RESOURCE_TYPE_NONE)
        return DOCA_SUCCESS;
    if (shape->decap_type == DOCA_FLOW_RESOURCE_TYPE_SHARED)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "a shared decap; the model has those of a template's own");
    set->decap = true;
    if (work->mode == COMPILE_ENTRY && work->entry == NULL && decap_is_changeable(&shape->decap_cfg))
        return refuse(DOCA_ERROR_INVALID_VALUE, "no actions, but the template leaves the Ethernet header of its "
                      "decap to the entry");
    return decap_build(&shape->decap_cfg,
                       work->mode == COMPILE_ENTRY && work->entry != NULL ? &work->entry->decap_cfg : NULL,
                       &set->decap_header);
}

static doca_error_t compile_encap(struct compilation *work, struct doca_flow_port *port)
{
    const struct doca_flow_actions *shape = &work->shape->actions;
    struct action_set *set = work->set;
    uint32_t id = shape->shared_encap_id;

    if (shape->encap_type == DOCA_FLOW_RESOURCE_TYPE_NONE)
        return DOCA_SUCCESS;
    set->encap = true;
    if (shape->encap_type == DOCA_FLOW_RESOURCE_TYPE_NON_SHARED) {
        set->own_encap = true;
        if (work->mode == COMPILE_ENTRY && work->entry == NULL && encap_is_changeable(&shape->encap_cfg))
            return refuse(DOCA_ERROR_INVALID_VALUE, "no actions, but the template leaves values of its encap to the "
                          "entry");
        return encap_build(&shape->encap_cfg,
                           work->mode == COMPILE_ENTRY && work->entry != NULL ? &work->entry->encap_cfg : NULL,
                           &set->encap_header);
    }
    if (id == UINT32_MAX && work->mode == COMPILE_SHAPE)
        return DOCA_SUCCESS;
    if (id == UINT32_MAX && work->entry != NULL)
        id = work->entry->shared_encap_id;
    return shared_encap(port, id, &set->encap_header);
}

static doca_error_t compile_rest(struct compilation *work)
{
    const struct doca_flow_actions *shape = &work->shape->actions;
    struct action_set *set = work->set;
    bool outer = false;

    set->pop_vlan = shape->pop_vlan;
    set->nat64 = shape->nat64.original_l3_type;
    if (shape->has_push) {
        doca_be16_t tci = shape->push.vlan.vlan_hdr.tci;

        if (tci == UINT16_MAX && work->mode == COMPILE_ENTRY && work->entry != NULL)
            tci = work->entry->push.vlan.vlan_hdr.tci;
        set->push_vlan = true;
        set->push_type = DOCA_BETOH16(shape->push.vlan.eth_type);
        set->push_tci = DOCA_BETOH16(tci);
    }
    if (set->nat64 == DOCA_FLOW_L3_TYPE_NONE)
        return DOCA_SUCCESS;
    for (size_t i = 0; i < set->op_count; i++)
        outer = outer || set->ops[i].dst.section == SECTION_OUTER;
    if (outer)
        return unproven("nat64 beside changes of headers in one template; their order is not known, use two pipes");
    return work->mode == COMPILE_SHAPE
               ? unproven("actions.nat64; public programs use the ordered list's NAT64 element")
               : DOCA_SUCCESS;
}

doca_error_t actions_compile(const struct action_template *shape, enum compile_mode mode,
                          const struct doca_flow_actions *entry, struct doca_flow_port *port, struct action_set *set)
{
    struct compilation work = {.shape = shape, .mode = mode, .entry = entry, .set = set};
    doca_error_t result;

    memset(set, 0, sizeof(*set));
    result = check_known(&shape->actions, shape->has_mask ? &shape->mask : &shape->actions);
    if (result == DOCA_SUCCESS)
        result = compile_decap(&work);
    if (result == DOCA_SUCCESS)
        result = compile_fields(&work);
    for (unsigned i = 0; i < shape->desc_count && result == DOCA_SUCCESS; i++)
        result = compile_desc(&work, &shape->descs[i]);
    if (result == DOCA_SUCCESS)
        result = compile_encap(&work, port);
    if (result == DOCA_SUCCESS)
        result = compile_rest(&work);
    return result;
}

void actions_clear(struct action_set *set)
{
    free(set->ops);
    memset(set, 0, sizeof(*set));
}
