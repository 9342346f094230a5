/* SPDX-License-Identifier: Apache-2.0 */
/* Ports on network devices, in a network namespace of the test's own. Skipped without the rights for that. */
#include "testbed.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <linux/if_packet.h>

enum { FRAMES = 500 };

static int open_socket(const char *name)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = DOCA_HTOBE16(ETH_P_ALL)};
    int fd = socket(AF_PACKET, SOCK_RAW, DOCA_HTOBE16(ETH_P_ALL)), size = 1 << 22;

    assert_true(fd >= 0);
    address.sll_ifindex = (int)if_nametoindex(name);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Frames of ours among what comes in on a socket within a second after the last one. */
static unsigned count_frames(int fd, const struct frame *frame, unsigned wanted)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    unsigned found = 0;
    uint8_t bytes[2048];

    while (found < wanted && poll(&ready, 1, 1000) == 1) {
        struct sockaddr_ll from;
        socklen_t size = sizeof(from);
        ssize_t length = recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &size);

        found += from.sll_pkttype != PACKET_OUTGOING && length == (ssize_t)frame->length &&
                 memcmp(bytes, frame->bytes, frame->length) == 0;
    }
    return found;
}

/* The kernel finds out in its own time that a device can carry frames; what is sent before is lost. */
static void wait_until_running(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    for (unsigned i = 0; i < 1000 && (request.ifr_flags & IFF_RUNNING) == 0; i++) {
        assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
        assert_int_equal(usleep(10000), 0);
    }
    assert_true((request.ifr_flags & IFF_RUNNING) != 0);
    assert_int_equal(close(fd), 0);
}

/* What this process takes of 200 ms. */
static long cpu_ms_of_a_while(void)
{
    clock_t before = clock();

    assert_int_equal(usleep(200000), 0);
    return (clock() - before) * 1000 / CLOCKS_PER_SEC;
}

/* client va -- vb [port 0, port 1] vc -- vd server */
static void carries_frames_between_devices(void **state)
{
    struct doca_flow_model_port_stats stats;
    struct doca_flow_fwd fwd = to_port(1);
    struct frame frame;
    int client, server, host;
    char padding[1700];

    memset(padding, 'x', sizeof(padding));
    padding[sizeof(padding) - 1] = '\0';
    testbed_up("vnf,hws", 2);
    (void)testbed_all(0, &fwd);
    assert_doca_refused(doca_flow_model_attach_netdev(0, "none"), DOCA_ERROR_NOT_FOUND, "no network device none");
    assert_doca_ok(doca_flow_model_attach_netdev(0, "vb"));
    assert_doca_ok(doca_flow_model_attach_netdev(1, "vc"));
    client = open_socket("va");
    server = open_socket("vd");
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);

    /* As a card: only its own address and broadcasts, unless it is told to take all. */
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(server, &frame, 1), 0);
    memset(frame.bytes, 0xff, 6);
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(server, &frame, 1), 1);
    assert_doca_ok(doca_flow_model_set_promiscuous(0, true));
    assert_doca_ok(doca_flow_model_set_promiscuous(0, true));
    assert_doca_refused(doca_flow_model_set_promiscuous(256, true), DOCA_ERROR_INVALID_VALUE, "port 256");
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    for (unsigned i = 0; i < FRAMES; i++)
        assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(server, &frame, FRAMES), FRAMES);
    assert_doca_ok(doca_flow_model_port_stats(0, &stats));
    assert_true(stats.received >= FRAMES);
    assert_int_equal(stats.lost, 0);
    assert_doca_ok(doca_flow_model_port_stats(1, &stats));
    assert_true(stats.sent >= FRAMES);
    assert_true(stats.received < FRAMES); /* what it sends does not come in again */

    /* What the host itself sends by a port's device does not come in by that port. */
    host = open_socket("vb");
    assert_int_equal(send(host, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(client, &frame, 1), 1);
    assert_int_equal(count_frames(server, &frame, 1), 0);
    assert_int_equal(close(host), 0);

    /* Frames that the device that they should leave by does not take, among others that it does; and, when the MTU has
     * grown since, frames that the ring has no room for. */
    assert_int_equal(system("ip link set va mtu 9000 && ip link set vb mtu 9000"), 0);
    frame_text(&frame, padding);
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    frame_text(&frame, padding);
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(server, &frame, 1), 1);
    assert_doca_ok(doca_flow_model_port_stats(1, &stats));
    assert_int_equal(stats.not_sent, 1);
    assert_true(stats.sent > FRAMES);
    assert_doca_ok(doca_flow_model_port_stats(0, &stats));
    assert_int_equal(stats.lost, 1);

    /* A device that goes down and comes up again carries on, and nobody spins meanwhile. */
    assert_int_equal(system("ip link set vb down"), 0);
    assert_true(cpu_ms_of_a_while() < 50);
    assert_int_equal(system("ip link set vb up"), 0);
    wait_until_running("va");
    wait_until_running("vb");
    assert_int_equal(send(client, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(server, &frame, 1), 1);

    /* The other port has no pipe: nothing comes back. */
    assert_int_equal(send(server, frame.bytes, frame.length, 0), frame.length);
    assert_int_equal(count_frames(client, &frame, 1), 0);
    assert_int_equal(close(client), 0);
    assert_int_equal(close(server), 0);
    assert_doca_ok(doca_flow_model_set_promiscuous(0, false));
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_frames_between_devices),
    };

    if (unshare(CLONE_NEWNET) != 0) {
        (void)printf("1..0 # SKIP no network namespace: %s\n", strerror(errno));
        return EXIT_SUCCESS;
    }
    if (system("ip link add name va type veth peer name vb && ip link add name vc type veth peer name vd && "
               "for i in va vb vc vd; do ip link set $i up || exit 1; done") != 0) {
        (void)printf("1..0 # SKIP no network devices can be made\n");
        return EXIT_SUCCESS;
    }
    return cmocka_run_group_tests_name("netdev", tests, NULL, NULL);
}
