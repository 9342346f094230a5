/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a client sends them to the control socket, in pieces of any size, reading answers at once or late. The
 * first byte says how. Every line gets one answer, which is JSON. */
#include "target.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../ext/rig.h"
#include "client.h"
#include "log.h"

enum { LAZY = 0x80, SERVES_MAX = 100000 };

/* What the client has got back, up to the line that is not whole yet. */
struct answers {
    char *text;
    size_t length, room, lines;
};

static void take_line(const char *line, size_t length)
{
    json_t *json = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);

    assert_true(json_is_object(json) && json_is_boolean(json_object_get(json, "ok")));
    assert_true(json_is_true(json_object_get(json, "ok")) || json_is_string(json_object_get(json, "error")));
    json_decref(json);
}

static void take_answers(int fd, struct answers *answers)
{
    for (;;) {
        ssize_t got;
        char *end;

        if (answers->room - answers->length < 1 << 16) {
            answers->room += 1 << 17;
            answers->text = realloc(answers->text, answers->room);
            assert_true(answers->text != NULL);
        }
        got = recv(fd, answers->text + answers->length, 1 << 16, MSG_DONTWAIT);
        if (got <= 0)
            return;
        answers->length += (size_t)got;
        while ((end = memchr(answers->text, '\n', answers->length)) != NULL) {
            size_t length = (size_t)(end - answers->text);

            take_line(answers->text, length);
            answers->lines++;
            answers->length -= length + 1;
            memmove(answers->text, end + 1, answers->length);
        }
    }
}

/* Sends it all, serves it all, and reads everything there is to read. */
static void talk(struct client *client, int fd, const uint8_t *data, size_t size, uint8_t how, struct answers *answers)
{
    size_t piece = how & 0x3f ? how & 0x3f : size + 1, sent = 0;
    bool stop = false, open = true;

    for (unsigned i = 0; i < SERVES_MAX && client->fd >= 0 && !stop; i++) {
        if (sent < size) {
            ssize_t put = send(fd, data + sent, piece < size - sent ? piece : size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

            assert_true(put > 0 || errno == EAGAIN);
            sent += put > 0 ? (size_t)put : 0;
        } else if (open) {
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
            open = false;
        }
        stop = client_serve(client, &rig);
        if (!(how & LAZY) || i % 64 == 63)
            take_answers(fd, answers);
    }
    take_answers(fd, answers);
    assert_true(stop || client->fd < 0);
    assert_int_equal(answers->length, 0); /* only whole answers */
}

static size_t lines_of(const uint8_t *data, size_t size)
{
    size_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    return lines;
}

static void as_it_was(void)
{
    if (rig.program == NULL) {
        log_set_level(LOG_NOTHING);
        doca_flow_model_set_strict(true);
        rig_up("ipip");
    } else if (rig.loads != 1 || rig.refused != 0) {
        rig_load(rig_json("ipip"));
        rig.loads = 1;
        rig.refused = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client client = {.fd = -1};
    struct answers answers = {0};
    int ends[2], few = 1;
    bool stopped;

    if (size < 1)
        return 0;
    as_it_was();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client.fd = ends[0];
    if (data[0] & LAZY) /* the least that the kernel allows: answers have to wait */
        assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)), 0);
    talk(&client, ends[1], data + 1, size - 1, data[0], &answers);
    stopped = client.fd >= 0;
    assert_true(stopped ? answers.lines <= lines_of(data + 1, size - 1)
                        : answers.lines == lines_of(data + 1, size - 1));
    assert_true(rig.consistent);
    client_close(&client);
    assert_int_equal(close(ends[1]), 0);
    free(answers.text);
    return 0;
}

/* The first byte stays what it is but for its own mutations: lines begin behind it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    if (size < 2 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, room);
    return 1 + mutate_json_lines(data + 1, size - 1, room - 1, seed);
}

static void use_text(seed_user use, const char *name, uint8_t how, const char *text)
{
    static uint8_t data[1 << 14];
    size_t length = strlen(text);

    assert_true(length < sizeof(data));
    data[0] = how;
    memcpy(data + 1, text, length);
    use(name, data, length + 1);
}

void each_seed(seed_user use)
{
    static const char *const names[] = {"ipip", "siit", "l2-slots"};
    char name[32], line[8000];

    use_text(use, "queries", 0, "{\"command\":\"status\"}\n{\"command\":\"counters\"}\n{\"command\":\"dump\"}\n");
    use_text(use, "pieces", 3, "{\"command\":\"status\"}\n\n[]\n{\"command\":\"drain\",\"backend\":\"b1\"}\nrest");
    use_text(use, "lazy", LAZY, "{\"command\":\"dump\"}\n{\"command\":\"dump\"}\n{\"command\":\"dump\"}\n"
                                "{\"command\":\"dump\"}\n{\"command\":\"dump\"}\n{\"command\":\"dump\"}\n");
    use_text(use, "stop", 0, "{\"command\":\"status\"}\n{\"command\":\"stop\"}\n{\"command\":\"status\"}\n");
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *json = rig_json(names[i]);
        char *text = json_dumps(json, JSON_COMPACT);

        assert_true(text != NULL);
        (void)snprintf(name, sizeof(name), "load-%s", names[i]);
        (void)snprintf(line, sizeof(line), "{\"command\":\"load\",\"program\":%s}\n{\"command\":\"drain\",\"backend\":"
                       "\"b2\"}\n{\"command\":\"counters\"}\n", text);
        use_text(use, name, (uint8_t)(i * 40), line);
        free(text);
        json_decref(json);
    }
}
