/* SPDX-License-Identifier: Apache-2.0
 *
 * Open TCP connections to a DNS server as fast as they end: one query each, then the client closes.
 *
 *     opener OPEN SECONDS      OPEN connections are under way at any time
 *
 * Standard input has lines of two words: `query HEX`, `client ADDRESS` (connections have these by turns) and one
 * `server ADDRESS`. A connection is lost that has no whole answer within a second, and refused where it was reset. Prints
 * JSON: connections begun, answered, lost and refused, seconds, and the time from SYN to answer in milliseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 4096, QUERIES = 64, LONGEST = 4096, SAMPLES = 1 << 21, BATCH = 64 };
static const int64_t SECOND = 1000000000; /* ns */

static struct connection {
    int fd;
    int64_t since;
    int received, expected; /* of the answer, with the two bytes of its length; 0: not known yet */
    bool asked;
    uint8_t head[2];
} open_now[MANY];
static struct sockaddr_storage clients[MANY], server;
static socklen_t address_size;
static uint8_t queries[QUERIES][LONGEST];
static int lengths[QUERIES], of_queries, of_clients, poller;
static float took[SAMPLES];
static long begun, answered, lost, refused;

static void fail(const char *what) {
    fprintf(stderr, "opener: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static socklen_t read_address(const char *text, int port, struct sockaddr_storage *to) {
    struct sockaddr_in *four = (struct sockaddr_in *)to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    memset(to, 0, sizeof *to);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET, four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1) fail(text);
    six->sin6_family = AF_INET6, six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

static void read_input(void) {
    char kind[16], word[1025];
    while (scanf("%15s %1024s", kind, word) == 2) {
        errno = 0;
        if (!strcmp(kind, "query") && of_queries < QUERIES) {
            uint8_t *to = queries[of_queries];
            unsigned byte;
            int n = 2;
            for (char *at = word; at[0] && at[1] && sscanf(at, "%2x", &byte) == 1; at += 2) to[n++] = (uint8_t)byte;
            to[0] = (uint8_t)((n - 2) >> 8), to[1] = (uint8_t)(n - 2);
            lengths[of_queries++] = n;
        } else if (!strcmp(kind, "client") && of_clients < MANY) {
            read_address(word, 0, &clients[of_clients++]);
        } else if (!strcmp(kind, "server")) {
            address_size = read_address(word, 53, &server);
        } else {
            fail(kind);
        }
    }
    if (!of_queries || !of_clients || !address_size) fail("queries, clients and a server");
}

static void begin(struct connection *one) {
    int yes = 1, fd = socket(server.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int level = server.ss_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = one};
    /* The port is chosen when it connects: ports in TIME_WAIT of other addresses do not count. */
    if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) ||
        setsockopt(fd, level, level == IPPROTO_IP ? IP_FREEBIND : IPV6_FREEBIND, &yes, sizeof yes) ||
        bind(fd, (struct sockaddr *)&clients[begun % of_clients], address_size))
        fail("a socket");
    *one = (struct connection){.fd = fd, .since = now()};
    begun++;
    if (connect(fd, (struct sockaddr *)&server, address_size) && errno != EINPROGRESS) fail("connect");
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event)) fail("epoll");
}

static void end(struct connection *one, long *counter) {
    (*counter)++;
    close(one->fd);
    one->fd = -1;
}

static void ask(struct connection *one) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    int q = (int)(begun % of_queries), error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error ||
        send(one->fd, queries[q], (size_t)lengths[q], MSG_NOSIGNAL) != lengths[q]) {
        end(one, &refused);
        return;
    }
    one->asked = true;
    if (epoll_ctl(poller, EPOLL_CTL_MOD, one->fd, &event)) fail("epoll");
}

static void receive(struct connection *one) {
    uint8_t data[LONGEST];
    ssize_t n = recv(one->fd, data, sizeof data, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        end(one, &refused);
        return;
    }
    for (ssize_t i = 0; i < n && one->received + i < 2; i++) one->head[one->received + i] = data[i];
    one->received += (int)n;
    if (one->received >= 2) one->expected = 2 + (one->head[0] << 8 | one->head[1]);
    if (!one->expected || one->received < one->expected) return;
    if (answered < SAMPLES) took[answered] = (float)(now() - one->since) / 1e6f;
    end(one, &answered);
}

static int by_size(const void *one, const void *other) {
    float a = *(const float *)one, b = *(const float *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    int count = argc == 3 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MANY) {
        fprintf(stderr, "usage: opener OPEN SECONDS\n");
        return 2;
    }
    poller = epoll_create1(0);
    read_input();
    for (int n = 0; n < count; n++) open_now[n].fd = -1;
    int64_t started = now(), stop = started + (int64_t)(atof(argv[2]) * (double)SECOND), last = started;
    long in_time = 0;
    for (bool some = true; some;) {
        struct epoll_event ready[BATCH];
        int64_t t = now();
        if (t < stop) in_time = answered;
        some = t < stop;
        for (int n = 0; n < count; n++) {
            if (open_now[n].fd >= 0 && t > open_now[n].since + SECOND) end(&open_now[n], &lost);
            if (open_now[n].fd < 0 && t < stop) begin(&open_now[n]);
            some |= open_now[n].fd >= 0;
        }
        int found = epoll_wait(poller, ready, BATCH, 10);
        for (int n = 0; n < found; n++) {
            struct connection *one = ready[n].data.ptr;
            if (one->asked) receive(one);
            else ask(one);
        }
        last = now();
    }
    double sum = 0, seconds = (double)((stop < last ? stop : last) - started) / (double)SECOND;
    long samples = answered < SAMPLES ? answered : SAMPLES;
    for (long n = 0; n < samples; n++) sum += (double)took[n];
    qsort(took, (size_t)samples, sizeof *took, by_size);
    printf("{\"begun\": %ld, \"answered\": %ld, \"in_time\": %ld, \"lost\": %ld, \"refused\": %ld, \"seconds\": %.4f, "
           "\"mean_ms\": %.4f, \"p99_ms\": %.4f}\n", begun, answered, in_time, lost, refused, seconds,
           samples ? sum / (double)samples : 0, samples ? (double)took[samples * 99 / 100] : 0);
    return 0;
}
