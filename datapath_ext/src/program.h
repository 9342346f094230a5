/* SPDX-License-Identifier: Apache-2.0 */
/* What the extension is to do, as dnsteer rendered it from its plan: read from JSON, checked, then never changed. */
#ifndef PROGRAM_H_
#define PROGRAM_H_

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"

enum { PROGRAM_VERSION = 1, COUNTERS_OWN = 16, SLOTS_MAX = 32768 /* the source port has 15 bits that choose */ };
/* Of each in the budget: the VIP and its probes, twice, since those that change are there twice for a moment. */
enum { SERVICES_PER_VIP = 4 };
enum { BACKENDS_MAX = 1 << 16, PROBE_NUMBERS = 1 << 12 };
enum { NAME_CHARACTERS = 160, NAME_SIZE = 4 * NAME_CHARACTERS + 1 /* UTF-8 */ };

struct forward_ops;
struct select_ops;

enum hash_field {
    HASH_SRC_IP = 1 << 0,
    HASH_DST_IP = 1 << 1,
    HASH_SRC_PORT = 1 << 2,
    HASH_DST_PORT = 1 << 3,
};

struct address {
    unsigned family;   /* 4, 6, or 0 for none */
    uint8_t bytes[16]; /* network order; IPv4 has the first four */
};

/* Names are the JSON's, which the program keeps. */
struct backend {
    const char *name;
    uint8_t mac[6];
    struct address address;
};

/* Health probes: queries that the bridge marks as such by their destination MAC address. Their source port's upper 12 bits
 * name the backend. */
struct probe {
    uint8_t mac[6];
    struct address ip4; /* where answers that are translated go */
};

/* A service, as clients ask it; or, with a `probe`, as probes do: the same address and port, for frames to that MAC address. */
struct vip {
    const char *name;
    size_t number; /* in the JSON's list */
    struct address address;
    uint8_t protocol; /* 6 or 17 */
    uint16_t port;
    const struct select_ops *select;
    unsigned hash_fields;
    const struct forward_ops *forward;
    unsigned slot_count;
    unsigned *slots; /* numbers of backends */
    const struct probe *probe; /* NULL: clients' queries */
    uint16_t *numbers;         /* with a probe: what names the backend of each slot */
};

/* What programs may use, which the ports reserve when they start; a change needs a restart. */
struct budgets {
    unsigned vips;     /* services that exist at once */
    unsigned slots;    /* entries of slots */
    unsigned backends; /* tunnels and translations: one per backend and IP version inside */
    unsigned counters; /* one per slot, and COUNTERS_OWN */
};

/* Entries that pipes get: of slots as many more as a VIP has at most, of backends twice as many. What hardware does not
 * update in place is put beside, and hardware may be full before its last entry. */
uint32_t budgets_slot_entries(const struct budgets *budgets);
uint32_t budgets_target_entries(const struct budgets *budgets);
uint32_t budgets_counters(const struct budgets *budgets);

struct program {
    json_t *source;
    const char *in, *out; /* devices: where packets come in, and where they leave */
    uint8_t tunnel_mac[6];
    struct address tunnel_ip4, tunnel_ip6;
    struct probe probe;
    bool has_probe;
    struct budgets budgets;
    size_t backend_count, vip_count; /* those for probes count too */
    size_t listed;                   /* VIPs in the JSON */
    struct backend *backends;
    json_t *backend_numbers; /* by name */
    struct vip *vips;
    struct program *next; /* for whoever keeps several */
};

/* NULL, and a fault that names the JSON path, what was found and what was expected. The program keeps the JSON, which
 * nobody may change from then on. */
struct program *program_read(json_t *json, struct fault *fault);
/* Of text that faults call by a name, such as that of its file. */
struct program *program_read_text(const char *text, size_t length, const char *what, struct fault *fault);
struct program *program_read_file(const char *path, struct fault *fault);
void program_free(struct program *program);

#endif
