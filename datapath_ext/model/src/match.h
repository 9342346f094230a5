/* SPDX-License-Identifier: Apache-2.0 */
/* Matches: which fields count, with which masks, and which values are the pipe's and which the entry's. */
#ifndef MODEL_MATCH_H_
#define MODEL_MATCH_H_

#include <doca_error.h>
#include <doca_flow.h>

#include "fields.h"

enum match_rule {
    MATCH_IMPLICIT, /* no mask: 0 ignores, all ones is the entry's, anything else is constant */
    MATCH_EXPLICIT, /* with mask: all ones and 0 are the entry's, anything else is constant */
    MATCH_LITERAL,  /* with mask: every value is meant, as in entries that carry their own mask */
    MATCH_KEY,      /* a mask only: the bits that a hash is made of */
};

enum { KEY_MAX = 512 }; /* bytes of the longest key */

struct match_part {
    struct place place;
    size_t at; /* of its bytes in a key */
    unsigned rank; /* in a hash */
    bool constant;
};

struct matcher {
    struct match_part *parts;
    size_t count;
    size_t size; /* of a key */
    uint8_t *mask;
    uint8_t *value; /* of the constant parts */
    enum doca_flow_l3_type l3[2]; /* selectors, outer and inner, for entries that leave them out */
    enum doca_flow_l4_type_ext l4[2];
};

/* Either pointer may be NULL; the matcher must be cleared, also after an error. */
doca_error_t matcher_create(enum match_rule rule, const struct doca_flow_match *match,
                            const struct doca_flow_match *mask, struct matcher *matcher);
void matcher_clear(struct matcher *matcher);
/* Whether both, literal ones, take the same packets by the same bits. */
bool matcher_same(const struct matcher *one, const struct matcher *other);

/* The key of an entry with this match (NULL: all zero), `matcher->size` bytes; constant parts are the pipe's. */
void matcher_entry_key(const struct matcher *matcher, const struct doca_flow_match *match, uint8_t *key);
/* The key of a packet; false if it lacks a header, or differs in a constant part. */
bool matcher_packet_key(const struct matcher *matcher, const struct packet *packet, uint8_t *key);
/* The same for a hash: headers that the packet lacks count as zeros, and *lacking tells. */
void matcher_hash_key(const struct matcher *matcher, const struct packet *packet, uint8_t *key, bool *lacking);
/* Whether a packet has the values that are the pipe's for all entries. */
bool matcher_constants_hold(const struct matcher *matcher, const struct packet *packet);
/* Whether a packet has exactly this key under this mask of `matcher->size` bytes. */
bool matcher_hits(const struct matcher *matcher, const uint8_t *key, const uint8_t *mask, const uint8_t *packet_key);

/* hash.c: a field's place among those that a hash is made of. */
unsigned hash_rank(const struct field *field);

/* A comparison beyond equality, as control entries have. */
struct condition {
    bool used;
    enum doca_flow_compare_op operation;
    struct place a, b;
    unsigned a_bit, b_bit, width;
    bool has_b;
    uint8_t value[FIELD_MAX]; /* compared with, where there is no b */
};

doca_error_t condition_create(const struct doca_flow_match_condition *spec, const struct doca_flow_match *match,
                              struct condition *condition);
bool condition_holds(const struct condition *condition, const struct packet *packet);

#endif
