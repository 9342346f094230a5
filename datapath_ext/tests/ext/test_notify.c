/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told by the loop of the control socket: that it is ready, and that it is alive as long as it goes round. */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "doca_assert.h"
#include "engine.h"
#include "server.h"

enum { ROUNDS = 4 };

int __wrap_poll(struct pollfd *fds, nfds_t number, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
void __wrap_engine_check_ports(struct engine *engine);

static struct {
    int socket;
    char folder[32], told[256];
    unsigned rounds, looks;
    unsigned hangs_at; /* the look that never comes back, as far as the loop goes */
} test;

/* All that systemd was told until now. */
static const char *read_told(void)
{
    char state[32];
    ssize_t length;

    while ((length = recv(test.socket, state, sizeof(state) - 1, MSG_DONTWAIT)) > 0) {
        state[length] = '\0';
        (void)strncat(test.told, state, sizeof(test.told) - strlen(test.told) - 2);
        (void)strncat(test.told, " ", 2);
    }
    return test.told;
}

/* No requests; a round is a second. After the last one the program is asked to end. */
int __wrap_poll(struct pollfd *fds, nfds_t number, int timeout)
{
    (void)timeout;
    for (nfds_t i = 0; i < number; i++)
        fds[i].revents = 0;
    if (++test.rounds == ROUNDS) {
        assert_int_equal(kill(getpid(), SIGTERM), 0); /* blocked, and read from the signalfd */
        fds[1].revents = POLLIN;
    }
    return 1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    time->tv_sec = 1000 + test.rounds;
    time->tv_nsec = 0;
    return 0;
}

/* A look at the ports: what was told before it is all that is told as long as it does not come back. */
void __wrap_engine_check_ports(struct engine *engine)
{
    (void)engine;
    test.looks++;
    if (test.looks == test.hangs_at)
        assert_string_equal(read_told(), "READY=1 WATCHDOG=1 ");
}

static int set_up(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)state;
    memset(&test, 0, sizeof(test));
    (void)strcpy(test.folder, "/tmp/notify-XXXXXX");
    if (mkdtemp(test.folder) == NULL)
        return -1;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", test.folder);
    test.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)setenv("NOTIFY_SOCKET", address.sun_path, 1);
    (void)unsetenv("WATCHDOG_PID");
    return bind(test.socket, (const struct sockaddr *)&address, sizeof(address));
}

static int tear_down(void **state)
{
    char path[64];

    (void)state;
    (void)close(test.socket);
    (void)snprintf(path, sizeof(path), "%s/notify", test.folder);
    (void)unlink(path);
    return rmdir(test.folder);
}

static void run(void)
{
    struct engine engine = {0}; /* nothing to look after */
    struct fault fault = {0};
    struct server *server;
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/control", test.folder);
    server = server_open(path, &fault);
    assert_string_equal(fault.text, "");
    assert_non_null(server);
    assert_true(server_run(server, &engine, &fault));
    server_close(server);
}

static void is_told_each_second(void **state)
{
    (void)state;
    (void)setenv("WATCHDOG_USEC", "120000000", 1);
    run();
    assert_int_equal(test.looks, ROUNDS);
    assert_string_equal(read_told(), "READY=1 WATCHDOG=1 WATCHDOG=1 WATCHDOG=1 WATCHDOG=1 STOPPING=1 ");
}

static void a_loop_that_hangs_is_silent(void **state)
{
    (void)state;
    (void)setenv("WATCHDOG_USEC", "120000000", 1);
    test.hangs_at = 2;
    run();
    assert_true(test.looks > test.hangs_at);
}

static void is_not_told_without_a_watchdog(void **state)
{
    (void)state;
    (void)unsetenv("WATCHDOG_USEC");
    run();
    assert_string_equal(read_told(), "READY=1 STOPPING=1 ");
}

static void is_not_told_for_another_process(void **state)
{
    (void)state;
    (void)setenv("WATCHDOG_USEC", "120000000", 1);
    (void)setenv("WATCHDOG_PID", "1", 1);
    run();
    assert_string_equal(read_told(), "READY=1 STOPPING=1 ");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_told_each_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loop_that_hangs_is_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_not_told_without_a_watchdog, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_not_told_for_another_process, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("ext_notify", tests, NULL, NULL);
}
