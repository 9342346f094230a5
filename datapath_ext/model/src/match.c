/* SPDX-License-Identifier: Apache-2.0 */
#include "match.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "core.h"

static const uint8_t *value_in(const struct doca_flow_match *match, struct place place)
{
    return (const uint8_t *)match + section_in_match(place.section) + place.field->offset;
}

static bool any(const void *bytes, size_t size)
{
    return !bytes_are(bytes, size, 0);
}

/* Members that the model would silently ignore are refused instead. `wanted` has the bits that count: the mask, or
 * the values where there is none. What it leaves 0 is ignored, whatever the match says there. */
static doca_error_t check_known(const struct doca_flow_match *match, const struct doca_flow_match *wanted)
{
    const struct doca_flow_parser_meta *parser = &wanted->parser_meta;
    const struct doca_flow_header_format *formats[2] = {&match->outer, &match->inner};
    const struct doca_flow_header_format *counts[2] = {&wanted->outer, &wanted->inner};
    enum doca_flow_tun_type tun = match->tun.type != DOCA_FLOW_TUN_NONE ? match->tun.type : wanted->tun.type;

    if (parser->ipsec_syndrome || parser->ipsec_ar_syndrome || parser->psp_syndrome)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "a match on IPsec or PSP syndromes; the model has no cryptography");
    for (unsigned i = 0; i < 2; i++)
        if ((formats[i]->l4_type_ext == DOCA_FLOW_L4_TYPE_EXT_ROCE_V2 ||
             counts[i]->l4_type_ext == DOCA_FLOW_L4_TYPE_EXT_ROCE_V2) &&
            any(&counts[i]->roce_v2, sizeof(counts[i]->roce_v2)))
            return refuse(DOCA_ERROR_NOT_SUPPORTED, "a match on RoCE headers; the model does not parse them");
    if (!any(&wanted->tun, sizeof(wanted->tun)))
        return DOCA_SUCCESS;
    if (tun != DOCA_FLOW_TUN_NONE && tun != DOCA_FLOW_TUN_VXLAN && tun != DOCA_FLOW_TUN_IP_IN_IP)
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "a match with tunnel type %d; the model parses VXLAN and IP-in-IP",
                      (int)tun);
    if (tun == DOCA_FLOW_TUN_VXLAN &&
        (match->tun.vxlan_type != DOCA_FLOW_TUN_EXT_VXLAN_STANDARD || wanted->tun.vxlan_gpe_flags != 0 ||
         wanted->tun.vxlan_gpe_next_protocol != 0))
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "a match on VXLAN-GPE or VXLAN-GBP; the model parses plain VXLAN");
    return DOCA_SUCCESS;
}

/* What the rule makes of one field: the mask it gets (none: ignored), and whether the pipe's value is meant. */
static bool classify(enum match_rule rule, const struct field *field, const uint8_t *value, const uint8_t *mask,
                     uint8_t *part_mask, bool *constant)
{
    bool zero = value == NULL || bytes_are(value, field->size, 0);

    switch (rule) {
    case MATCH_KEY:
        memcpy(part_mask, mask, field->size);
        *constant = false;
        return !bytes_are(mask, field->size, 0);
    case MATCH_IMPLICIT:
        memset(part_mask, 0xff, field->size);
        *constant = value != NULL && !field_all_ones(field, value);
        return !zero;
    case MATCH_EXPLICIT:
        memcpy(part_mask, mask, field->size);
        *constant = !zero && !field_all_ones(field, value);
        return !bytes_are(mask, field->size, 0);
    case MATCH_LITERAL:
    default:
        memset(part_mask, 0xff, field->size);
        if (mask != NULL)
            memcpy(part_mask, mask, field->size);
        *constant = true;
        return mask != NULL ? !bytes_are(mask, field->size, 0) : !zero;
    }
}

/* A selector counts although its mask is 0, but then all ones select nothing: the rest of the header is ignored too. */
static void selectors(struct matcher *matcher, const struct doca_flow_match *match, bool masked)
{
    const struct doca_flow_header_format *formats[2];

    if (match == NULL)
        return;
    formats[0] = &match->outer;
    formats[1] = &match->inner;
    for (unsigned i = 0; i < 2; i++) {
        bool any_l3 = masked && (unsigned)formats[i]->l3_type == UINT32_MAX;
        bool any_l4 = masked && (unsigned)formats[i]->l4_type_ext == UINT32_MAX;

        if (formats[i]->l3_type != DOCA_FLOW_L3_TYPE_NONE && !(any_l3 && matcher->l3[i] == DOCA_FLOW_L3_TYPE_NONE))
            matcher->l3[i] = formats[i]->l3_type;
        if (formats[i]->l4_type_ext != DOCA_FLOW_L4_TYPE_EXT_NONE &&
            !(any_l4 && matcher->l4[i] == DOCA_FLOW_L4_TYPE_EXT_NONE))
            matcher->l4[i] = formats[i]->l4_type_ext;
    }
}

static doca_error_t add_part(struct matcher *matcher, struct place place, bool constant, const uint8_t *value,
                             const uint8_t *mask)
{
    size_t size = place.field->size;
    struct match_part *parts = realloc(matcher->parts, (matcher->count + 1) * sizeof(*parts));
    uint8_t *bytes;

    if (parts == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a match");
    matcher->parts = parts;
    if (matcher->size + size > KEY_MAX)
        return refuse(DOCA_ERROR_TOO_BIG, "a match of more than %d bytes", KEY_MAX);
    bytes = realloc(matcher->mask, matcher->size + size);
    if (bytes == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a match");
    matcher->mask = bytes;
    bytes = realloc(matcher->value, matcher->size + size);
    if (bytes == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a match");
    matcher->value = bytes;

    memcpy(matcher->mask + matcher->size, mask, size);
    for (size_t i = 0; i < size; i++)
        matcher->value[matcher->size + i] = (uint8_t)(value != NULL ? value[i] & mask[i] : 0);
    parts[matcher->count++] = (struct match_part){.place = place, .at = matcher->size,
                                                  .rank = hash_rank(place.field), .constant = constant};
    matcher->size += size;
    return DOCA_SUCCESS;
}

static doca_error_t check_selectors(const struct matcher *matcher)
{
    for (unsigned i = 0; i < 2; i++) {
        if (matcher->l3[i] != DOCA_FLOW_L3_TYPE_NONE && matcher->l3[i] != DOCA_FLOW_L3_TYPE_IP4 &&
            matcher->l3[i] != DOCA_FLOW_L3_TYPE_IP6)
            return refuse(DOCA_ERROR_INVALID_VALUE, "l3_type %u; it selects a member and cannot be changeable",
                          (unsigned)matcher->l3[i]);
        if ((unsigned)matcher->l4[i] > DOCA_FLOW_L4_TYPE_EXT_ROCE_V2)
            return refuse(DOCA_ERROR_INVALID_VALUE, "l4_type_ext %u; it selects a member and cannot be changeable",
                          (unsigned)matcher->l4[i]);
    }
    return DOCA_SUCCESS;
}

static doca_error_t check_meta(enum match_rule rule, struct place place)
{
    size_t word = place.field->offset / sizeof(doca_be32_t);

    if (place.section != SECTION_META)
        return DOCA_SUCCESS;
    if (rule == MATCH_IMPLICIT)
        return refuse(DOCA_ERROR_INVALID_VALUE, "a match on meta data without a mask; it needs an explicit one");
    if (word > 5)
        return unproven("a match on meta.u32[%zu]; only words 0 to 4 are there on all hardware", word - 1);
    return DOCA_SUCCESS;
}

static bool selects_vxlan(const struct doca_flow_match *match)
{
    return match != NULL && match->tun.type == DOCA_FLOW_TUN_VXLAN;
}

doca_error_t matcher_create(enum match_rule rule, const struct doca_flow_match *match,
                            const struct doca_flow_match *mask, struct matcher *matcher)
{
    doca_error_t result = DOCA_SUCCESS;

    memset(matcher, 0, sizeof(*matcher));
    if (match != NULL)
        result = check_known(match, mask != NULL ? mask : match);
    else if (mask != NULL)
        result = check_known(mask, mask);
    selectors(matcher, mask, false);
    selectors(matcher, match, mask != NULL);
    if (result == DOCA_SUCCESS)
        result = check_selectors(matcher);
    for (enum section section = 0; section <= SECTION_INNER && result == DOCA_SUCCESS; section++) {
        unsigned side = section == SECTION_INNER;
        size_t count;
        const struct field *fields = section_fields(section, &count);

        for (size_t i = 0; i < count && result == DOCA_SUCCESS; i++) {
            struct place place = {section, &fields[i]};
            const uint8_t *value = match != NULL ? value_in(match, place) : NULL;
            uint8_t part_mask[FIELD_MAX];
            bool constant;

            if ((section == SECTION_OUTER || section == SECTION_INNER) &&
                !field_selected(&fields[i], matcher->l3[side], matcher->l4[side]))
                continue;
            if (section == SECTION_TUN && !selects_vxlan(match) && !selects_vxlan(mask))
                continue;
            if (!classify(rule, &fields[i], value, mask != NULL ? value_in(mask, place) : NULL, part_mask, &constant))
                continue;
            result = check_meta(rule, place);
            if (result == DOCA_SUCCESS)
                result = add_part(matcher, place, constant, value, part_mask);
        }
    }
    return result;
}

void matcher_clear(struct matcher *matcher)
{
    free(matcher->parts);
    free(matcher->mask);
    free(matcher->value);
    memset(matcher, 0, sizeof(*matcher));
}

/* Under the mask; as many bytes at a time as there are. */
static bool same(const uint8_t *number, const uint8_t *value, const uint8_t *mask, size_t size)
{
    uint64_t a, b, under;
    size_t at = 0;

    for (; at + sizeof(a) <= size; at += sizeof(a)) {
        memcpy(&a, number + at, sizeof(a));
        memcpy(&b, value + at, sizeof(b));
        memcpy(&under, mask + at, sizeof(under));
        if (((a ^ b) & under) != 0)
            return false;
    }
    for (; at < size; at++)
        if (((number[at] ^ value[at]) & mask[at]) != 0)
            return false;
    return true;
}

bool matcher_same(const struct matcher *one, const struct matcher *other)
{
    if (one->count != other->count || one->size != other->size)
        return false;
    /* Values first: they tell most apart. */
    if (one->size != 0 && (!same(one->value, other->value, one->mask, one->size) ||
                           memcmp(one->mask, other->mask, one->size) != 0))
        return false;
    for (size_t i = 0; i < one->count; i++)
        if (one->parts[i].place.section != other->parts[i].place.section ||
            one->parts[i].place.field != other->parts[i].place.field)
            return false;
    return true;
}

void matcher_entry_key(const struct matcher *matcher, const struct doca_flow_match *match, uint8_t *key)
{
    for (size_t i = 0; i < matcher->count; i++) {
        const struct match_part *part = &matcher->parts[i];
        const uint8_t *value = match != NULL ? value_in(match, part->place) : NULL;

        for (size_t j = 0; j < part->place.field->size; j++) {
            size_t at = part->at + j;

            if (part->constant)
                key[at] = matcher->value[at];
            else
                key[at] = (uint8_t)(value != NULL ? value[j] & matcher->mask[at] : 0);
        }
    }
}

bool matcher_packet_key(const struct matcher *matcher, const struct packet *packet, uint8_t *key)
{
    for (size_t i = 0; i < matcher->count; i++) {
        const struct match_part *part = &matcher->parts[i];
        const uint8_t *mask = matcher->mask + part->at, *value = matcher->value + part->at;
        uint8_t room[FIELD_MAX];
        const uint8_t *number = field_get(packet, part->place, room);

        if (number == NULL || (part->constant && !same(number, value, mask, part->place.field->size)))
            return false;
        for (size_t j = 0; j < part->place.field->size; j++)
            key[part->at + j] = number[j] & mask[j];
    }
    return true;
}

void matcher_hash_key(const struct matcher *matcher, const struct packet *packet, uint8_t *key, bool *lacking)
{
    *lacking = false;
    for (size_t i = 0; i < matcher->count; i++) {
        const struct match_part *part = &matcher->parts[i];
        uint8_t number[FIELD_MAX] = {0};

        *lacking = !field_read(packet, part->place, number) || *lacking;
        for (size_t j = 0; j < part->place.field->size; j++)
            key[part->at + j] = number[j] & matcher->mask[part->at + j];
    }
}

bool matcher_constants_hold(const struct matcher *matcher, const struct packet *packet)
{
    /* The last first: addresses and ports tell packets apart, what is before them seldom does. */
    for (size_t i = matcher->count; i-- > 0;) {
        const struct match_part *part = &matcher->parts[i];
        uint8_t room[FIELD_MAX];
        const uint8_t *number;

        if (!part->constant)
            continue;
        number = field_get(packet, part->place, room);
        if (number == NULL ||
            !same(number, matcher->value + part->at, matcher->mask + part->at, part->place.field->size))
            return false;
    }
    return true;
}

bool matcher_hits(const struct matcher *matcher, const uint8_t *key, const uint8_t *mask, const uint8_t *packet_key)
{
    for (size_t i = 0; i < matcher->size; i++)
        if ((key[i] & mask[i]) != (packet_key[i] & mask[i]))
            return false;
    return true;
}
