/* What ports can be connected to. */
#ifndef MODEL_ENDPOINT_H_
#define MODEL_ENDPOINT_H_

#include "objects.h"

struct pcap_file;
struct netdev;

/* One of the two. */
struct endpoint {
    struct pcap_file *in, *out;
    struct netdev *netdev;
};

/* pcap.c: all calls with the lock held. NULL with a reason. */
struct pcap_file *pcap_open_in(const char *path);
struct pcap_file *pcap_open_out(const char *path);
void pcap_close(struct pcap_file *file);
/* The next frame, *length 0 at the end of the file; false with a reason if the file is damaged. */
bool pcap_read(struct pcap_file *file, uint8_t *frame, size_t room, size_t *length);
bool pcap_write(struct pcap_file *file, const uint8_t *frame, size_t length);

/* netdev.c. Open without the lock; it starts a thread. NULL with a reason, and its code in *result. */
struct netdev *netdev_open(const char *name, uint16_t port_id, bool promiscuous, doca_error_t *result);
bool netdev_set_promiscuous(struct netdev *netdev, bool on);
/* Without the lock: waits for the thread. */
void netdev_close(struct netdev *netdev);
/* At once, or, from a thread of a device, with the next frames; what the device did not take then is in its losses. */
bool netdev_send(struct netdev *netdev, const uint8_t *frame, size_t length);
/* Since the last call: frames that the device's ring had no room for, and frames that it did not take after all. */
void netdev_losses(struct netdev *netdev, uint64_t *lost, uint64_t *not_sent);

#endif
