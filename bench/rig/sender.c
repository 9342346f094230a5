/* SPDX-License-Identifier: Apache-2.0
 *
 * Send one Ethernet frame again and again with some of its bits drawn at random each time, checksums right.
 *
 *     sender INTERFACE PACKETS_A_SECOND SECONDS SEED      send; PACKETS_A_SECOND 0: as many as it can
 *     sender - COUNT 0 SEED                               print so many frames in hexadecimal, one a line
 *
 * Standard input has two words in hexadecimal, of one length: the frame, and the mask of its bits that are random.
 * IPv4 or IPv6 without options or extension headers; checksums of UDP and TCP. Prints JSON: frames that the link took,
 * frames that it refused, and seconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, LONGEST = 1514, ETH = 14, IP4 = 20, IP6 = 40 };
static const int64_t SECOND = 1000000000, MOST_BEHIND = 10000000; /* ns; what is later is given up, not sent in a burst */

static uint8_t frame[LONGEST], mask[LONGEST], batch[BATCH][LONGEST];
static int length;
static uint64_t state;

static void fail(const char *what) {
    fprintf(stderr, "sender: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators, scrambled (2016). */
static uint64_t drawn(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

static int read_hex(uint8_t *to) {
    static char text[2 * LONGEST + 1];
    unsigned byte;
    int n = 0;
    if (scanf("%3028s", text) != 1) fail("a word of standard input");
    for (char *at = text; *at; at += 2, n++) {
        if (sscanf(at, "%2x", &byte) != 1 || !at[1]) fail("a byte in hexadecimal");
        to[n] = (uint8_t)byte;
    }
    return n;
}

static uint32_t sum_of(const uint8_t *at, int bytes, uint32_t sum) {
    for (; bytes > 1; at += 2, bytes -= 2) sum += (uint32_t)at[0] << 8 | at[1];
    return bytes ? sum + ((uint32_t)at[0] << 8) : sum;
}

static void write_sum(uint8_t *at, uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    uint16_t found = (uint16_t)~sum;
    at[0] = (uint8_t)(found >> 8);
    at[1] = (uint8_t)found;
}

static void write_checksums(uint8_t *data) {
    uint8_t *ip = data + ETH, *l4;
    int protocol, rest;
    uint32_t sum;
    if (data[12] == 0x08 && data[13] == 0x00) {
        ip[10] = ip[11] = 0;
        write_sum(ip + 10, sum_of(ip, IP4, 0));
        protocol = ip[9], l4 = ip + IP4;
        sum = sum_of(ip + 12, 8, (uint32_t)protocol);
    } else if (data[12] == 0x86 && data[13] == 0xdd) {
        protocol = ip[6], l4 = ip + IP6;
        sum = sum_of(ip + 8, 32, (uint32_t)protocol);
    } else {
        return;
    }
    rest = length - (int)(l4 - data);
    uint8_t *at = protocol == 17 ? l4 + 6 : protocol == 6 ? l4 + 16 : NULL;
    if (!at) return;
    at[0] = at[1] = 0;
    write_sum(at, sum_of(l4, rest, sum + (uint32_t)rest));
    if (protocol == 17 && !at[0] && !at[1]) at[0] = at[1] = 0xff; /* 0 says that there is none (RFC 768) */
}

static void draw(uint8_t *data) {
    uint64_t word = 0;
    int left = 0;
    for (int n = 0; n < length; n++) {
        if (!mask[n]) continue;
        if (!left) word = drawn(), left = 8;
        data[n] = (uint8_t)((frame[n] & ~mask[n]) | ((uint8_t)word & mask[n]));
        word >>= 8, left--;
    }
    write_checksums(data);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void wait_until(int64_t when) {
    struct timespec t = {.tv_sec = when / SECOND, .tv_nsec = when % SECOND};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int opened(const char *interface) {
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    int one = 1, fd = socket(AF_PACKET, SOCK_RAW, 0); /* protocol 0: it receives nothing */
    if (fd < 0 || !to.sll_ifindex || bind(fd, (struct sockaddr *)&to, sizeof to)) fail(interface);
    if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one)) fail("PACKET_QDISC_BYPASS");
    return fd;
}

static void send_all(const char *interface, double rate, double seconds) {
    static struct mmsghdr messages[BATCH];
    static struct iovec parts[BATCH];
    int fd = opened(interface);
    int64_t begin = now(), end = begin + (int64_t)(seconds * (double)SECOND), due = begin, sent = 0, refused = 0;
    int64_t step = rate > 0 ? (int64_t)((double)BATCH * (double)SECOND / rate) : 0;
    for (int n = 0; n < BATCH; n++) {
        parts[n] = (struct iovec){batch[n], (size_t)length};
        messages[n].msg_hdr.msg_iov = &parts[n];
        messages[n].msg_hdr.msg_iovlen = 1;
    }
    for (int64_t t = begin; t < end; t = now()) {
        if (step && t < due) wait_until(due);
        if (step && t > due + MOST_BEHIND) due = t;
        due += step;
        for (int n = 0; n < BATCH; n++) draw(batch[n]);
        for (int from = 0; from < BATCH;) {
            int took = sendmmsg(fd, messages + from, (unsigned)(BATCH - from), 0);
            if (took < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR) fail("sendmmsg");
            refused += took < 0; /* the link drops this one; on with the next */
            sent += took > 0 ? took : 0;
            from += took > 0 ? took : 1;
        }
    }
    printf("{\"sent\": %lld, \"refused\": %lld, \"seconds\": %.4f}\n", (long long)sent, (long long)refused,
           (double)(now() - begin) / (double)SECOND);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: sender INTERFACE|- PACKETS_A_SECOND|COUNT SECONDS SEED\n");
        return 2;
    }
    double rate = atof(argv[2]), seconds = atof(argv[3]);
    state = strtoull(argv[4], NULL, 10) * 2654435761u + 88172645463325252u; /* of which none is 0 for a seed of 32 bits */
    length = read_hex(frame);
    errno = 0;
    if (read_hex(mask) != length || length < ETH + IP4) fail("a frame and a mask of its length");
    for (int n = 0; n < BATCH; n++) memcpy(batch[n], frame, (size_t)length);
    if (strcmp(argv[1], "-")) {
        send_all(argv[1], rate, seconds);
        return 0;
    }
    for (int64_t count = (int64_t)rate; count > 0; count--) {
        draw(batch[0]);
        for (int n = 0; n < length; n++) printf("%02x", batch[0][n]);
        puts("");
    }
    return 0;
}
