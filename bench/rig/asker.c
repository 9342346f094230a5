/* SPDX-License-Identifier: Apache-2.0
 *
 * Ask many DNS servers over UDP from many sockets, each time a server and a socket of its family drawn at random.
 *
 *     asker SOCKETS RATE SECONDS SEED      SOCKETS for each family; RATE queries a second, 0: 200 that wait for an answer
 *
 * Standard input has lines of two words: `query HEX`, `client ADDRESS` (sockets have these by turns) and `server ADDRESS`.
 * A query is lost that has no answer of the server asked, with its id, within a second, or within 65,536 further queries.
 * Prints JSON: queries sent and answered, seconds, latency of answers in milliseconds, servers that answered none, and the
 * least and the most that one server answered.
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

enum { FAMILIES = 2, MANY = 4096, QUERIES = 64, LONGEST = 512, IDS = 65536, BATCH = 32, OUTSTANDING = 200 };
enum { SAMPLES = 1 << 23 };
static const int64_t SECOND = 1000000000, MOST_BEHIND = 10000000; /* ns; what is later is given up, not sent in a burst */

struct server {
    struct sockaddr_storage address;
    int family; /* 0: IPv4 */
    long answered;
};

static struct { int64_t at; int server, socket; bool waits; } sent_as[IDS]; /* by id */
static struct server servers[MANY];
static struct sockaddr_storage clients[FAMILIES][MANY];
static int sockets[FAMILIES][MANY], of_family[FAMILIES], of_clients[FAMILIES], of_servers;
static uint8_t queries[QUERIES][LONGEST];
static int lengths[QUERIES], of_queries;
static float latency[SAMPLES];
static long sent, answered, first; /* first: the oldest query that may still wait */
static int waiting;
static uint64_t state;

static void fail(const char *what) {
    fprintf(stderr, "asker: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators, scrambled (2016). */
static uint32_t drawn(int below) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 2685821657736338717u >> 33) % (uint64_t)below);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* Returns 0 for IPv4 and 1 for IPv6. */
static int read_address(const char *text, int port, struct sockaddr_storage *to) {
    struct sockaddr_in *four = (struct sockaddr_in *)to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    memset(to, 0, sizeof *to);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET, four->sin_port = htons((uint16_t)port);
        return 0;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1) fail(text);
    six->sin6_family = AF_INET6, six->sin6_port = htons((uint16_t)port);
    return 1;
}

static socklen_t size_of(int family) {
    return family ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void read_input(void) {
    char kind[16], word[2 * LONGEST + 1];
    while (scanf("%15s %1024s", kind, word) == 2) {
        errno = 0;
        if (!strcmp(kind, "query") && of_queries < QUERIES) {
            uint8_t *to = queries[of_queries];
            unsigned byte;
            int n = 0;
            for (char *at = word; at[0] && at[1] && sscanf(at, "%2x", &byte) == 1; at += 2) to[n++] = (uint8_t)byte;
            lengths[of_queries++] = n;
        } else if (!strcmp(kind, "client")) {
            struct sockaddr_storage one;
            int family = read_address(word, 0, &one);
            if (of_clients[family] == MANY) fail("more clients than fit");
            clients[family][of_clients[family]++] = one;
        } else if (!strcmp(kind, "server") && of_servers < MANY) {
            servers[of_servers].family = read_address(word, 53, &servers[of_servers].address);
            of_servers++;
        } else {
            fail(kind);
        }
    }
    if (!of_queries || !of_servers) fail("queries and servers");
    for (int n = 0; n < of_servers; n++) {
        if (!of_clients[servers[n].family]) fail("a client of each server's family");
    }
}

static void open_sockets(int family, int count, int poll) {
    int one = 1, size = 1 << 20, level = family ? IPPROTO_IPV6 : IPPROTO_IP;
    for (int n = 0; n < count && of_clients[family]; n++) {
        int fd = socket(family ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd < 0 || setsockopt(fd, level, family ? IPV6_FREEBIND : IP_FREEBIND, &one, sizeof one) ||
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) ||
            bind(fd, (struct sockaddr *)&clients[family][n % of_clients[family]], size_of(family)) ||
            epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
            fail("a socket");
        sockets[family][of_family[family]++] = fd;
    }
}

static void give_up(long before) {
    for (; first < before; first++) {
        waiting -= sent_as[first % IDS].waits;
        sent_as[first % IDS].waits = false;
    }
}

static void ask(int64_t t) {
    int id = (int)(sent % IDS), q = (int)drawn(of_queries), n = (int)drawn(of_servers);
    struct server *to = &servers[n];
    int fd = sockets[to->family][drawn(of_family[to->family])];
    give_up(sent - IDS + 1);
    queries[q][0] = (uint8_t)(id >> 8), queries[q][1] = (uint8_t)id;
    sent++;
    if (sendto(fd, queries[q], (size_t)lengths[q], 0, (struct sockaddr *)&to->address, size_of(to->family)) < 0) return;
    sent_as[id].at = t, sent_as[id].server = n, sent_as[id].socket = fd, sent_as[id].waits = true;
    waiting++;
}

static void receive(int fd) {
    uint8_t data[LONGEST];
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    for (ssize_t n; (n = recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &size)) >= 0; size = sizeof from) {
        int id = n >= 12 ? data[0] << 8 | data[1] : 0;
        struct server *of = &servers[sent_as[id].server];
        if (n < 12 || !sent_as[id].waits || sent_as[id].socket != fd) continue;
        if (memcmp(&from, &of->address, of->family ? 24 : 8)) continue; /* family, port, flow label and address */
        sent_as[id].waits = false, waiting--;
        if (answered < SAMPLES) latency[answered] = (float)(now() - sent_as[id].at) / 1e6f;
        answered++, of->answered++;
    }
}

static int by_size(const void *one, const void *other) {
    float a = *(const float *)one, b = *(const float *)other;
    return (a > b) - (a < b);
}

static void print_report(double seconds) {
    long samples = answered < SAMPLES ? answered : SAMPLES, silent = 0, least = answered, most = 0;
    double sum = 0;
    for (long n = 0; n < samples; n++) sum += (double)latency[n];
    qsort(latency, (size_t)samples, sizeof *latency, by_size);
    for (int n = 0; n < of_servers; n++) {
        silent += !servers[n].answered;
        if (servers[n].answered < least) least = servers[n].answered;
        if (servers[n].answered > most) most = servers[n].answered;
    }
    printf("{\"sent\": %ld, \"answered\": %ld, \"seconds\": %.4f, \"mean_ms\": %.4f, ", sent, answered, seconds,
           samples ? sum / (double)samples : 0);
    for (int n = 0; n < 3; n++) {
        static const struct { const char *name; long of_1000; } wanted[] = {{"p50", 500}, {"p99", 990}, {"p999", 999}};
        printf("\"%s_ms\": %.4f, ", wanted[n].name, samples ? (double)latency[samples * wanted[n].of_1000 / 1000] : 0);
    }
    printf("\"silent\": %ld, \"least\": %ld, \"most\": %ld}\n", silent, least, most);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: asker SOCKETS RATE SECONDS SEED\n");
        return 2;
    }
    int count = atoi(argv[1]), poll = epoll_create1(0);
    double rate = atof(argv[2]);
    if (count < 1 || count > MANY) fail("a number of sockets");
    state = strtoull(argv[4], NULL, 10) * 2654435761u + 88172645463325252u; /* of which none is 0 for a seed of 32 bits */
    read_input();
    for (int family = 0; family < FAMILIES; family++) open_sockets(family, count, poll);
    int64_t begin = now(), end = begin + (int64_t)(atof(argv[3]) * (double)SECOND), due = begin, t = begin;
    int64_t step = rate > 0 ? (int64_t)((double)SECOND / rate) : 0;
    while (t < end || (waiting && t < end + SECOND)) {
        struct epoll_event ready[BATCH];
        if (step && t > due + MOST_BEHIND) due = t;
        for (int n = 0; t < end && n < BATCH && (step ? t >= due : waiting < OUTSTANDING); n++, due += step) ask(now());
        int some = epoll_wait(poll, ready, BATCH, step && t >= due && t < end ? 0 : 1);
        for (int n = 0; n < some; n++) receive(ready[n].data.fd);
        t = now();
        while (first < sent && (!sent_as[first % IDS].waits || sent_as[first % IDS].at < t - SECOND)) give_up(first + 1);
    }
    print_report((double)(end - begin) / (double)SECOND);
    return 0;
}
