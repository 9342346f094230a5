/* SPDX-License-Identifier: Apache-2.0 */
/* A port on a network device: frames come in through a ring that is shared with the kernel, and leave by the same
 * socket. One thread per device. The ring is one of frames (TPACKET_V2): in one of blocks (TPACKET_V3), a frame waits
 * for its block to fill or for a timer of 1 ms at least, and whoever waits for an answer waits with it. */
#include <doca_log.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "endpoint.h"
#include "tx_batch.h"

enum { RING_SIZE = 1 << 23, BLOCK_SIZE = 1 << 18, ROOM_LEAST = 1 << 11 };
enum { HEADERS = 128 }; /* the kernel's and Ethernet's, in a frame's room beside what the MTU counts */
/* Of the sender's address behind a frame's header, which the kernel aligns so. */
enum { ADDRESS_OFFSET = (sizeof(struct tpacket2_hdr) + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT };

struct netdev {
    struct tx_device device; /* first: tx_device_put() releases the whole */
    int wake;
    uint8_t *ring;
    unsigned room; /* per frame */
    pthread_t thread;
    bool running;
    atomic_bool stop, promiscuous;
    int index;
    atomic_ullong too_long; /* for the ring's room */
    uint16_t port_id;
    char name[IFNAMSIZ];
};

/* Of the thread, if it is one of a device. */
static _Thread_local struct tx_batch *batch;

/* VLAN tags that the kernel took out are put back; `room` has 4 bytes in front for that. */
static size_t whole_frame(const struct tpacket2_hdr *header, uint8_t *room)
{
    const uint8_t *data = (const uint8_t *)header + header->tp_mac;
    size_t length = header->tp_snaplen;

    if ((header->tp_status & TP_STATUS_VLAN_VALID) == 0 || length < 12) {
        memcpy(room, data, length);
        return length;
    }
    memcpy(room, data, 12);
    be16_put(room + 12,
             header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : DOCA_FLOW_ETHER_TYPE_VLAN);
    be16_put(room + 14, (uint16_t)header->tp_vlan_tci);
    memcpy(room + 16, data + 12, length - 12);
    return length + 4;
}

/* Checksums that the sender left to its hardware are finished here: hardware would never see them open. */
static void finish_checksum(const struct tpacket2_hdr *header, uint8_t *frame, size_t length)
{
    struct packet packet = {.data = frame, .length = length};
    const struct layer *outer = &packet.layer[0];
    uint8_t *l4, *ip, *at;
    size_t size;
    uint32_t sum;

    if ((header->tp_status & TP_STATUS_CSUMNOTREADY) == 0)
        return;
    packet_parse(&packet);
    if (outer->fragment || (outer->l4 != DOCA_FLOW_L4_META_TCP && outer->l4 != DOCA_FLOW_L4_META_UDP))
        return;
    ip = frame + outer->l3_off;
    l4 = frame + outer->l4_off;
    size = outer->end - outer->l4_off;
    at = l4 + (outer->l4 == DOCA_FLOW_L4_META_TCP ? 16 : 6);
    be16_put(at, 0);
    sum = outer->proto + (uint32_t)size;
    sum = outer->l3 == DOCA_FLOW_L3_META_IPV4 ? sum_add(sum, ip + 12, 8) : sum_add(sum, ip + 8, 32);
    sum = (uint16_t)~sum_fold(sum_add(sum, l4, size));
    be16_put(at, (uint16_t)(sum == 0 && outer->l4 == DOCA_FLOW_L4_META_UDP ? 0xffff : sum));
}

static void receive_frame(struct netdev *netdev, const struct tpacket2_hdr *header, uint8_t *frame)
{
    const void *address = (const uint8_t *)header + ADDRESS_OFFSET;
    const struct sockaddr_ll *from = address;
    struct doca_flow_model_result result;
    size_t length;

    if (from->sll_pkttype == PACKET_OUTGOING) /* what we or others sent */
        return;
    /* A card does not take these in. The kernel shows them to packet sockets, whatever the device's mode. */
    if (!netdev->promiscuous && from->sll_pkttype != PACKET_HOST && from->sll_pkttype != PACKET_BROADCAST)
        return;
    if (header->tp_snaplen < header->tp_len || header->tp_len > FRAME_MAX - 4) {
        netdev->too_long++;
        return;
    }
    length = whole_frame(header, frame);
    finish_checksum(header, frame, length);
    if (doca_flow_model_receive(netdev->port_id, frame, length, &result) == DOCA_SUCCESS)
        doca_flow_model_result_free(&result);
}

/* That the device went down is told again and again until someone asks. */
static void forget_error(const struct netdev *netdev)
{
    int error;
    socklen_t size = sizeof(error);

    (void)getsockopt(netdev->device.socket, SOL_SOCKET, SO_ERROR, &error, &size);
}

static void *carry(void *argument)
{
    struct netdev *netdev = argument;
    struct pollfd ready[2] = {{.fd = netdev->device.socket, .events = POLLIN}, {.fd = netdev->wake, .events = POLLIN}};
    uint8_t *frame = malloc(FRAME_MAX);
    unsigned next = 0;

    batch = tx_batch_create();
    while (frame != NULL && batch != NULL && !netdev->stop) {
        struct tpacket2_hdr *header = (struct tpacket2_hdr *)(void *)(netdev->ring + (size_t)next * netdev->room);

        if ((__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) {
            tx_batch_flush(batch);
            if (poll(ready, 2, -1) < 0 && errno != EINTR)
                break;
            if (ready[0].revents & POLLERR)
                forget_error(netdev);
            continue;
        }
        receive_frame(netdev, header, frame);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        next = (next + 1) % (RING_SIZE / netdev->room);
    }
    if (batch != NULL)
        tx_batch_flush(batch);
    tx_batch_destroy(batch);
    free(frame);
    return NULL;
}

/* Room for whatever the device's MTU lets through, in sizes that divide a block. */
static unsigned room_wanted(const struct netdev *netdev)
{
    struct ifreq request = {0};
    unsigned wanted = ROOM_LEAST;

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", netdev->name);
    if (ioctl(netdev->device.socket, SIOCGIFMTU, &request) != 0)
        return wanted;
    while (wanted < (unsigned)request.ifr_mtu + HEADERS && wanted < BLOCK_SIZE)
        wanted *= 2;
    return wanted;
}

bool netdev_set_promiscuous(struct netdev *netdev, bool on)
{
    struct packet_mreq membership = {.mr_ifindex = netdev->index, .mr_type = PACKET_MR_PROMISC};

    if (netdev->promiscuous == on)
        return true;
    if (setsockopt(netdev->device.socket, SOL_PACKET, on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &membership,
                   sizeof(membership)) != 0)
        return false;
    netdev->promiscuous = on;
    return true;
}

static doca_error_t open_ring(struct netdev *netdev, bool promiscuous)
{
    struct tpacket_req request = {.tp_block_size = BLOCK_SIZE, .tp_block_nr = RING_SIZE / BLOCK_SIZE};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = DOCA_HTOBE16(ETH_P_ALL),
                                  .sll_ifindex = netdev->index};
    int version = TPACKET_V2, yes = 1;
    void *ring;

    netdev->room = request.tp_frame_size = room_wanted(netdev);
    request.tp_frame_nr = RING_SIZE / netdev->room;
    if (setsockopt(netdev->device.socket, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
        setsockopt(netdev->device.socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0 ||
        setsockopt(netdev->device.socket, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof(yes)) != 0 ||
        !netdev_set_promiscuous(netdev, promiscuous))
        return refuse(DOCA_ERROR_OPERATING_SYSTEM, "setting up a socket on %s: %s", netdev->name, strerror(errno));
    ring = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, netdev->device.socket, 0);
    if (ring == MAP_FAILED)
        return refuse(DOCA_ERROR_OPERATING_SYSTEM, "mapping the ring of %s: %s", netdev->name, strerror(errno));
    netdev->ring = ring;
    if (bind(netdev->device.socket, (struct sockaddr *)&address, sizeof(address)) != 0)
        return refuse(DOCA_ERROR_OPERATING_SYSTEM, "binding a socket to %s: %s", netdev->name, strerror(errno));
    return DOCA_SUCCESS;
}

static void release(struct tx_device *device)
{
    struct netdev *netdev = (struct netdev *)device;

    if (netdev->ring != NULL)
        (void)munmap(netdev->ring, RING_SIZE);
    if (netdev->wake >= 0)
        (void)close(netdev->wake);
    if (device->socket >= 0)
        (void)close(device->socket);
    free(netdev);
}

struct netdev *netdev_open(const char *name, uint16_t port_id, bool promiscuous, doca_error_t *result)
{
    struct netdev *netdev = calloc(1, sizeof(*netdev));
    unsigned index = if_nametoindex(name);
    int error;

    if (netdev == NULL) {
        *result = refuse(DOCA_ERROR_NO_MEMORY, "no memory for a network device");
        return NULL;
    }
    netdev->device.socket = netdev->wake = -1;
    netdev->device.users = 1;
    netdev->device.release = release;
    netdev->port_id = port_id;
    netdev->index = (int)index;
    (void)snprintf(netdev->name, sizeof(netdev->name), "%s", name);
    if (index == 0) {
        *result = refuse(DOCA_ERROR_NOT_FOUND, "no network device %s: %s", name, strerror(errno));
        goto close;
    }
    /* Protocol 0: nothing comes in before the ring is bound to the device. */
    netdev->device.socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    netdev->wake = eventfd(0, EFD_CLOEXEC);
    if (netdev->device.socket < 0 || netdev->wake < 0) {
        *result = refuse(DOCA_ERROR_OPERATING_SYSTEM, "a packet socket for %s: %s", name, strerror(errno));
        goto close;
    }
    *result = open_ring(netdev, promiscuous);
    if (*result != DOCA_SUCCESS)
        goto close;
    error = pthread_create(&netdev->thread, NULL, carry, netdev);
    if (error != 0) {
        *result = refuse(DOCA_ERROR_OPERATING_SYSTEM, "a thread for %s: %s", name, strerror(error));
        goto close;
    }
    netdev->running = true;
    return netdev;

close:
    netdev_close(netdev);
    return NULL;
}

void netdev_close(struct netdev *netdev)
{
    static const uint64_t one = 1;

    if (netdev == NULL)
        return;
    if (netdev->running) {
        netdev->stop = true;
        if (write(netdev->wake, &one, sizeof(one)) != sizeof(one))
            note(DOCA_LOG_LEVEL_ERROR, "waking the thread of %s: %s", netdev->name, strerror(errno));
        (void)pthread_join(netdev->thread, NULL);
    }
    tx_device_put(&netdev->device);
}

bool netdev_send(struct netdev *netdev, const uint8_t *frame, size_t length)
{
    if (batch != NULL) {
        if (tx_batch_add(batch, &netdev->device, frame, length))
            return true;
        tx_batch_flush(batch); /* it is full, and the order stays */
        if (tx_batch_add(batch, &netdev->device, frame, length))
            return true;
    }
    return send(netdev->device.socket, frame, length, MSG_DONTWAIT) == (ssize_t)length;
}

void netdev_losses(struct netdev *netdev, uint64_t *lost, uint64_t *not_sent)
{
    struct tpacket_stats stats = {0};
    socklen_t size = sizeof(stats);

    /* The kernel counts from 0 after each reading. */
    (void)getsockopt(netdev->device.socket, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    *lost = stats.tp_drops + atomic_exchange(&netdev->too_long, 0);
    *not_sent = atomic_exchange(&netdev->device.not_sent, 0);
}
