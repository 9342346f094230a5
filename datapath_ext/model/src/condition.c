/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of entries in CONTROL pipes: a comparison of a field with another field or a value. */
#include <string.h>

#include "bytes.h"
#include "core.h"
#include "match.h"

doca_error_t condition_create(const struct doca_flow_match_condition *spec, const struct doca_flow_match *match,
                              struct condition *condition)
{
    const struct doca_flow_desc_field *a, *b;

    memset(condition, 0, sizeof(*condition));
    if (spec == NULL)
        return DOCA_SUCCESS;
    a = &spec->field_op.a;
    b = &spec->field_op.b;
    condition->used = true;
    condition->operation = spec->operation;
    condition->width = spec->field_op.width;
    condition->a_bit = a->bit_offset;
    condition->b_bit = b->bit_offset;
    if ((unsigned)spec->operation > DOCA_FLOW_COMPARE_GE)
        return refuse(DOCA_ERROR_INVALID_VALUE, "match condition: operation %u", (unsigned)spec->operation);
    if (condition->width == 0 || condition->width > 8 * FIELD_MAX)
        return refuse(DOCA_ERROR_INVALID_VALUE, "match condition: width %u; 1 to 128 bits", condition->width);
    if (a->field_string == NULL || !place_find(a->field_string, &condition->a_bit, condition->width, &condition->a))
        return refuse(DOCA_ERROR_INVALID_VALUE, "match condition: no field %s with %u bits from bit %u",
                      a->field_string != NULL ? a->field_string : "(none)", condition->width, a->bit_offset);
    if (b->field_string != NULL) {
        condition->has_b = true;
        if (!place_find(b->field_string, &condition->b_bit, condition->width, &condition->b))
            return refuse(DOCA_ERROR_INVALID_VALUE, "match condition: no field %s with %u bits from bit %u",
                          b->field_string, condition->width, b->bit_offset);
    } else if (match != NULL) {
        condition->b_bit = condition->a_bit;
        memcpy(condition->value,
               (const uint8_t *)match + section_in_match(condition->a.section) + condition->a.field->offset,
               condition->a.field->size);
    }
    return DOCA_SUCCESS;
}

bool condition_holds(const struct condition *condition, const struct packet *packet)
{
    uint8_t a[FIELD_MAX], b[FIELD_MAX];
    size_t b_size = condition->a.field->size;
    int order;

    if (!field_read(packet, condition->a, a))
        return false;
    if (condition->has_b) {
        if (!field_read(packet, condition->b, b))
            return false;
        b_size = condition->b.field->size;
    } else {
        memcpy(b, condition->value, sizeof(b));
    }
    order = number_compare(a, condition->a.field->size, condition->a_bit, b, b_size, condition->b_bit,
                           condition->width);
    switch (condition->operation) {
    case DOCA_FLOW_COMPARE_EQ:
        return order == 0;
    case DOCA_FLOW_COMPARE_NE:
        return order != 0;
    case DOCA_FLOW_COMPARE_LT:
        return order < 0;
    case DOCA_FLOW_COMPARE_LE:
        return order <= 0;
    case DOCA_FLOW_COMPARE_GT:
        return order > 0;
    case DOCA_FLOW_COMPARE_GE:
    default:
        return order >= 0;
    }
}
