/* SPDX-License-Identifier: Apache-2.0 */
/* Two starts on one control socket: whatever the first one is about to do when the second one comes, one serves the socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "doca_assert.h"
#include "server.h"

int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

enum step { NEVER, FLOCK, UNLINK, BIND, LISTEN };

static struct {
    char folder[32], path[64], lock[72];
    enum step at; /* where the second start comes, once */
    struct server *second;
    struct fault fault; /* why the second one does not serve */
} test;

static void come(enum step step)
{
    if (test.at != step)
        return;
    test.at = NEVER;
    if (step == FLOCK) /* who had the lock until now removes its file */
        (void)__real_unlink(test.lock);
    test.second = server_open(test.path, &test.fault);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    come(BIND);
    return __real_bind(fd, address, length);
}

int __wrap_flock(int fd, int operation)
{
    come(FLOCK);
    return __real_flock(fd, operation);
}

int __wrap_listen(int fd, int backlog)
{
    come(LISTEN);
    return __real_listen(fd, backlog);
}

int __wrap_unlink(const char *path)
{
    if (strcmp(path, test.path) == 0)
        come(UNLINK);
    return __real_unlink(path);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool is_served(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served;

    (void)strcpy(address.sun_path, test.path);
    served = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return served;
}

/* What a process that was killed leaves: a socket that nobody serves, and a lock file that nobody holds. */
static void leave(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)strcpy(address.sun_path, test.path);
    assert_int_equal(__real_bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
    fd = open(test.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static int set_up(void **state)
{
    (void)state;
    memset(&test, 0, sizeof(test));
    (void)strcpy(test.folder, "/tmp/start-XXXXXX");
    if (mkdtemp(test.folder) == NULL)
        return -1;
    (void)snprintf(test.path, sizeof(test.path), "%s/control", test.folder);
    (void)snprintf(test.lock, sizeof(test.lock), "%s.lock", test.path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(test.folder); /* nothing was left in it */
}

static void one_of_two_serves(void **state)
{
    (void)state;
    for (enum step step = UNLINK; step <= LISTEN; step++) {
        struct fault fault = {0};
        struct server *first;

        leave();
        test.at = step;
        first = server_open(test.path, &fault);
        assert_string_equal(fault.text, "");
        assert_non_null(first);
        assert_int_equal(test.at, NEVER);
        assert_null(test.second);
        assert_non_null(strstr(test.fault.text, "another process serves it, and holds "));
        memset(&test.fault, 0, sizeof(test.fault));
        assert_true(is_served());
        server_close(first);
        assert_false(exists(test.path));
        assert_false(exists(test.lock));
    }
}

/* The lock file that the first one has opened is removed, and the second one has made another. */
static void a_lock_that_was_removed_is_none(void **state)
{
    struct fault fault = {0};

    (void)state;
    test.at = FLOCK;
    assert_null(server_open(test.path, &fault));
    assert_non_null(strstr(fault.text, "another process serves it, and holds "));
    assert_non_null(test.second);
    assert_true(is_served());
    server_close(test.second);
}

static void a_lock_that_cannot_be_taken_is_named(void **state)
{
    struct fault fault = {0};
    char expected[160];

    (void)state;
    assert_int_equal(symlink("/dev/null", test.lock), 0);
    assert_null(server_open(test.path, &fault));
    (void)snprintf(expected, sizeof(expected), "lock %s: %s", test.lock, strerror(ELOOP));
    assert_string_equal(fault.text, expected);
    assert_int_equal(__real_unlink(test.lock), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_two_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_that_was_removed_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_that_cannot_be_taken_is_named, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("ext_start", tests, NULL, NULL);
}
