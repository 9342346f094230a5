/* SPDX-License-Identifier: Apache-2.0 */
/* The model's own interface: what no hardware has. Hand packets to ports and see what becomes of them, connect ports
 * to network devices, choose how strict the model is, and ask why it refused.
 *
 * A program that knows nothing of this header is steered by the environment:
 *   DOCA_FLOW_MODEL_STRICT=1           refuse what no public program or document proves
 *   DOCA_FLOW_MODEL_DEVICES="a b"      names under which doca_devinfo_create_list() offers devices
 *   DOCA_FLOW_MODEL_UPDATES_MOST, _REMOVE_ONE_IN, _FULL_ONE_IN, _FULL_AT_SIZE, _DESTROY_CALLBACKS
 *                                      numbers: struct doca_flow_model_faults
 *   DOCA_FLOW_MODEL_PORTS="0=netdev:NAME 1=netdev:NAME"
 *                                      connects ports as they start */
#ifndef DOCA_FLOW_MODEL_H_
#define DOCA_FLOW_MODEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_flow_port;

enum doca_flow_model_verdict {
    DOCA_FLOW_MODEL_SENT = 0, /* left by a port */
    DOCA_FLOW_MODEL_DROPPED,  /* a rule said so, or a red meter */
    DOCA_FLOW_MODEL_KERNEL,   /* handed to the kernel of the port's device */
    DOCA_FLOW_MODEL_QUEUED,   /* handed to a receive queue of the program (RSS) */
    DOCA_FLOW_MODEL_MISSED,   /* no rule matched, and the default for that is not known or not set */
    DOCA_FLOW_MODEL_UNPROVEN, /* dropped by strict mode: what hardware does with this packet is not known */
    DOCA_FLOW_MODEL_BROKEN,   /* the model could not go on: no memory, a loop of pipes, a packet that grew too long */
};

struct doca_flow_model_output {
    enum doca_flow_model_verdict verdict;
    uint16_t port_id;   /* SENT: the port it left by; otherwise the port it came in by */
    uint16_t queue;     /* QUEUED: the receive queue */
    uint32_t pkt_meta;  /* host order: what the program would find with the packet */
    uint8_t *frame;     /* Ethernet frame without FCS */
    size_t length;
    char reason[128];   /* in words: the pipe that decided, and why */
};

struct doca_flow_model_result {
    struct doca_flow_model_output *outputs; /* one, or one per copy */
    size_t count;
};

/* One frame into a started port. The result is the caller's to free, whatever the verdicts.
 * DOCA_ERROR_INVALID_VALUE: no such port, or a frame of 0 or more than 65,535 bytes. */
doca_error_t doca_flow_model_receive(uint16_t port_id, const uint8_t *frame, size_t length,
                                     struct doca_flow_model_result *result);
void doca_flow_model_result_free(struct doca_flow_model_result *result);
const char *doca_flow_model_verdict_name(enum doca_flow_model_verdict verdict);

/* Why the latest call of this thread refused, as a sentence; "" if none did. Overwritten by the next refusal. */
const char *doca_flow_model_reason(void);

/* Whether what is unproven is refused (true) or done with a warning (false, unless the environment says otherwise). */
void doca_flow_model_set_strict(bool strict);
bool doca_flow_model_is_strict(void);
/* Unproven things done with a warning since doca_flow_init(). */
uint64_t doca_flow_model_unproven(void);

/* Whether a forward to a port, from the default domain, goes through that port's egress root pipe, as up to DOCA 3.0
 * (true), or out at once, as from 3.1 on (false, the default). Forwards of type PIPE lead there in both. */
void doca_flow_model_set_egress_by_port(bool on);

/* What hardware is reported to refuse or to do, and the model does only on request. All 0: nothing of it. */
struct doca_flow_model_faults {
    uint32_t updates_most;   /* updates in place that an entry takes, the next one is refused: IN_USE; 0: any number */
    uint32_t remove_one_in;  /* one in so many removals is refused, by chance: UNKNOWN; 0: none, 1: all */
    uint32_t full_one_in;    /* one in so many additions finds no place, by chance: FULL; 0: none, 1: all */
    bool full_at_size;       /* an update needs a free entry of its pipe: FULL if it has none, and for additions too */
    bool destroy_callbacks;  /* entries of pipes that are destroyed or flushed are called back, as removed */
};
/* From now on; NULL: none. Until the first call the environment says it. Chance is seeded by doca_flow_model_seed(). */
void doca_flow_model_set_faults(const struct doca_flow_model_faults *faults);

/* Replays what random numbers the model draws: packet randoms, junk in scratch words. */
void doca_flow_model_seed(uint64_t seed);
/* Stops the clock of meters and aging and sets it, in ns; UINT64_MAX gives it back to the system. */
void doca_flow_model_set_clock(uint64_t now_ns);

/* Adds a device that doca_devinfo_create_list() will offer, or, as "DEVICE,REPRESENTOR", a representor that
 * doca_devinfo_rep_create_list() will. Any name but "" will do. */
doca_error_t doca_flow_model_device_add(const char *name);

/* Connects a started port to a network device, with a thread that carries frames both ways until the port stops.
 * Needs CAP_NET_RAW. DOCA_ERROR_NOT_FOUND: no such device; DOCA_ERROR_OPERATING_SYSTEM: a socket call failed. */
doca_error_t doca_flow_model_attach_netdev(uint16_t port_id, const char *name);
/* What rte_eth_promiscuous_enable() and _disable() do on a card, before or after the port starts. Without it (the state
 * at first, as DPDK's) a network device hands over only frames to its own MAC address and broadcasts.
 * DOCA_ERROR_OPERATING_SYSTEM: the device refuses. */
doca_error_t doca_flow_model_set_promiscuous(uint16_t port_id, bool on);

struct doca_flow_model_port_stats {
    uint64_t received;    /* frames that came in */
    uint64_t sent;        /* frames that left by this port */
    uint64_t not_sent;    /* frames that the device did not take */
    uint64_t dropped;     /* frames in that ended as dropped, missed, unproven or broken */
    uint64_t handed_over; /* frames in that went to the kernel or to a queue */
    uint64_t lost;        /* frames that the device's ring had no room for */
};
doca_error_t doca_flow_model_port_stats(uint16_t port_id, struct doca_flow_model_port_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
