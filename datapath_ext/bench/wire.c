/* SPDX-License-Identifier: Apache-2.0 */
/* client (this process) a -- b [program] c -- d server (this process). Queries in flight are kept at a number, as load
 * tools for DNS do: what comes out makes room for what goes in. With one in flight, that is the latency. */
#include <doca_bitfield.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "require.h"

enum { BATCH = 64, SAMPLES = 1 << 20, ROUNDS_MAX = 101 };

static const char *const devices[2] = {"bench-b", "bench-c"}; /* the program's */
static const char *const ends[2] = {"bench-a", "bench-d"};
static const unsigned windows[] = {1, 100, 1000};
enum { WINDOWS = sizeof(windows) / sizeof(windows[0]) };

struct child {
    pid_t pid;
    int hold; /* closed: it ends */
};

/* What one measurement found. */
struct figures {
    double rate, cpu_us, latency_us, latency99_us, lost;
};

static bool make_devices(void)
{
    return unshare(CLONE_NEWNET) == 0 &&
           system("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 && "
                  "ip link add bench-a type veth peer name bench-b && "
                  "ip link add bench-c type veth peer name bench-d && "
                  "for i in a b c d; do ip link set bench-$i mtu 1600 up || exit 1; done") == 0;
}

static int open_socket(const char *name, uint16_t protocol)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = DOCA_HTOBE16(protocol),
                                  .sll_ifindex = (int)if_nametoindex(name)};
    struct timeval patience = {.tv_usec = 100000};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), size = 1 << 23, yes = 1;

    REQUIRE(fd >= 0);
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) == 0);
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    REQUIRE(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof(yes)) == 0);
    REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static struct child start(const struct mode *mode, const struct settings *settings)
{
    int ready[2], hold[2];
    struct child child;
    char byte = 0;

    REQUIRE(pipe(ready) == 0 && pipe(hold) == 0);
    child.pid = fork();
    REQUIRE(child.pid >= 0);
    if (child.pid == 0) {
        struct engine engine;
        char ports[128];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(hold[1]);
        (void)snprintf(ports, sizeof(ports), "0=netdev:%s 1=netdev:%s", devices[0], devices[1]);
        REQUIRE(setenv("DOCA_FLOW_MODEL_PORTS", ports, 1) == 0);
        bench_open(&engine, mode, settings->vips, devices);
        REQUIRE(write(ready[1], &byte, 1) == 1);
        (void)read(hold[0], &byte, 1);
        engine_close(&engine);
        _exit(0);
    }
    (void)close(ready[1]);
    (void)close(hold[0]);
    REQUIRE(read(ready[0], &byte, 1) == 1);
    (void)close(ready[0]);
    child.hold = hold[1];
    return child;
}

static void stop(struct child child)
{
    (void)close(child.hold);
    REQUIRE(waitpid(child.pid, NULL, 0) == child.pid);
}

static double cpu_seconds(pid_t pid)
{
    struct timespec used = {0};
    clockid_t clock;

    REQUIRE(clock_getcpuclockid(pid, &clock) == 0);
    REQUIRE(clock_gettime(clock, &used) == 0);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void send_some(int fd, const struct packets *packets, unsigned *next, unsigned count)
{
    static struct mmsghdr messages[BATCH];
    static struct iovec parts[BATCH];

    while (count > 0) {
        unsigned some = count < BATCH ? count : BATCH;
        int sent;

        for (unsigned i = 0; i < some; i++) {
            parts[i].iov_base = (void *)(uintptr_t)packets->bytes[(*next + i) % PACKETS];
            parts[i].iov_len = packets->length;
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        sent = sendmmsg(fd, messages, some, 0);
        REQUIRE(sent > 0);
        *next += (unsigned)sent;
        count -= (unsigned)sent;
    }
}

/* Waits for one, and takes what else is there; 0 after a while without. */
static unsigned take_some(int fd)
{
    static uint8_t room[BATCH][256];
    static struct mmsghdr messages[BATCH];
    static struct iovec parts[BATCH];
    int taken;

    for (unsigned i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){.iov_base = room[i], .iov_len = sizeof(room[i])};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    taken = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
    REQUIRE(taken > 0 || errno == EAGAIN || errno == EINTR);
    return taken > 0 ? (unsigned)taken : 0;
}

static struct figures measure(const struct mode *mode, const struct settings *settings, unsigned window, pid_t pid)
{
    static struct packets packets, answers;
    static double samples[SAMPLES];
    int in = open_socket(ends[mode->direction == ANSWERS], mode->direction == BOTH ? ETH_P_ALL : 0);
    int out = open_socket(ends[mode->direction != ANSWERS], ETH_P_ALL);
    unsigned next = 0, next_answer = 0, flying = 0;
    uint64_t started, end, before, count = 0, lost = 0;
    size_t sample_count = 0;
    struct figures figures;
    double cpu;

    mode_packets(mode, mode->direction == ANSWERS, settings->vips, &packets);
    if (mode->direction == BOTH)
        mode_packets(mode, true, settings->vips, &answers);
    started = now_ns();
    end = started + (uint64_t)(settings->seconds * 1e9);
    cpu = cpu_seconds(pid);
    while ((before = now_ns()) < end) {
        unsigned taken;

        send_some(in, &packets, &next, window - flying);
        flying = window;
        taken = take_some(out);
        if (mode->direction == BOTH) {
            send_some(out, &answers, &next_answer, taken);
            taken = take_some(in);
        }
        if (taken == 0) {
            lost += flying;
            flying = 0;
        } else if (window == 1 && sample_count < SAMPLES) {
            samples[sample_count++] = (double)(now_ns() - before) / 1e3;
        }
        count += taken;
        flying -= taken < flying ? taken : flying;
    }
    figures = (struct figures){.rate = (double)count / settings->seconds,
                               .cpu_us = 1e6 * (cpu_seconds(pid) - cpu) / (double)(count > 0 ? count : 1),
                               .lost = (double)lost};
    figures.latency_us = median(samples, sample_count); /* sorts */
    figures.latency99_us = sample_count > 0 ? samples[sample_count * 99 / 100] : 0;
    (void)close(in);
    (void)close(out);
    return figures;
}

static double middle(const struct figures *figures, unsigned rounds, size_t offset)
{
    double values[ROUNDS_MAX];

    for (unsigned i = 0; i < rounds; i++)
        values[i] = *(const double *)(const void *)((const char *)&figures[i] + offset);
    return median(values, rounds);
}

static json_t *window_json(unsigned window, const struct figures *figures, unsigned rounds)
{
    json_t *json = json_pack("{s:i, s:i, s:f, s:i}", "in_flight", (int)window, "packets_per_second",
                             (int)middle(figures, rounds, offsetof(struct figures, rate)), "program_cpu_us_per_packet",
                             middle(figures, rounds, offsetof(struct figures, cpu_us)), "lost",
                             (int)middle(figures, rounds, offsetof(struct figures, lost)));

    if (window == 1) {
        (void)json_object_set_new(json, "latency_us_median",
                                  json_real(middle(figures, rounds, offsetof(struct figures, latency_us))));
        (void)json_object_set_new(json, "latency_us_99",
                                  json_real(middle(figures, rounds, offsetof(struct figures, latency99_us))));
    }
    return json;
}

json_t *wire_json(const struct settings *settings)
{
    struct figures (*figures)[WINDOWS][ROUNDS_MAX] = calloc(mode_count, sizeof(*figures));
    unsigned rounds = settings->wire_rounds < ROUNDS_MAX ? settings->wire_rounds : ROUNDS_MAX;
    json_t *json = json_object();

    REQUIRE(figures != NULL);
    if (!make_devices()) {
        free(figures);
        json_decref(json);
        return json_string("not root, or no virtual network devices");
    }
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < mode_count; i++) {
            struct child child;

            if (!setting_wants(settings, &modes[i]))
                continue;
            child = start(&modes[i], settings);
            for (unsigned w = 0; w < WINDOWS; w++)
                figures[i][w][round] = measure(&modes[i], settings, windows[w], child.pid);
            stop(child);
        }
    for (size_t i = 0; i < mode_count; i++) {
        json_t *list = json_array();

        for (unsigned w = 0; w < WINDOWS && setting_wants(settings, &modes[i]); w++)
            (void)json_array_append_new(list, window_json(windows[w], figures[i][w], rounds));
        if (json_array_size(list) > 0)
            (void)json_object_set(json, modes[i].name, list);
        json_decref(list);
    }
    free(figures);
    return json;
}
