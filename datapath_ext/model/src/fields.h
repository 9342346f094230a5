/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of the API's structures and where they are in a packet. */
#ifndef MODEL_FIELDS_H_
#define MODEL_FIELDS_H_

#include "packet.h"

enum section { SECTION_META, SECTION_PARSER, SECTION_OUTER, SECTION_TUN, SECTION_INNER };
enum { SECTIONS = SECTION_INNER + 1 };

enum header {
    HEADER_META,
    HEADER_PARSER,
    HEADER_ETH,
    HEADER_ETH_TYPE,
    HEADER_VLAN0,
    HEADER_VLAN1,
    HEADER_IP4,
    HEADER_IP6,
    HEADER_PORTS, /* TCP or UDP: which of them was selected filters nothing */
    HEADER_TCP,
    HEADER_ICMP,
    HEADER_VXLAN,
};

struct field {
    const char *name; /* in descriptors, behind the section's; NULL if it has none */
    uint16_t offset;  /* in the section's structure */
    uint8_t size;     /* bytes there, a right-aligned number in network order or opaque bytes */
    enum header header;
    uint16_t bit; /* in that header, from its first bit */
    uint16_t width;
    enum doca_flow_l3_type l3; /* the union members that must be selected, NONE for any */
    enum doca_flow_l4_type_ext l4;
};

/* A field of one section, as matches, actions and descriptors name it. */
struct place {
    enum section section;
    const struct field *field;
};

const struct field *section_fields(enum section section, size_t *count);
/* Where a section begins in a match and in actions; the latter have no inner one (SIZE_MAX). */
size_t section_in_match(enum section section);
size_t section_in_actions(enum section section);

/* Whether the selectors of a header mean this field. */
bool field_selected(const struct field *field, enum doca_flow_l3_type l3, enum doca_flow_l4_type_ext l4);
/* Whether all bits that the field has are set, however many its structure has room for. */
bool field_all_ones(const struct field *field, const uint8_t *value);

/* The field's number; false if the packet has no such header. */
bool field_read(const struct packet *packet, struct place place, uint8_t number[FIELD_MAX]);
/* The same without a copy where the packet has the number as it is: in the packet or in `room`, or NULL. */
const uint8_t *field_get(const struct packet *packet, struct place place, uint8_t room[FIELD_MAX]);
/* The same, without effect where there is no such header. Checksums are the caller's, see checksum.h. */
void field_write(struct packet *packet, struct place place, const uint8_t number[FIELD_MAX]);

/* What a descriptor names; `bit` counts from the field's least significant bit and is adjusted for meta.data, whose
 * words are fields of their own. False if there is no such field, or if it does not hold all the bits. */
bool place_find(const char *string, unsigned *bit, unsigned width, struct place *place);
/* Whether the name has been seen at work in public programs. */
bool place_is_proven(const char *string);
/* "outer.ipv4.src_ip" and the like, for messages. */
const char *place_name(struct place place);

#endif
