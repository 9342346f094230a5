/* A program that stays loaded: each run of it is a fork of one process, made where main() begins.
 *
 * ovs-ofctl, ovs-vsctl and ovsdb-tool are started some 40,000 times by these tests, and two thirds of the time of a short run
 * of one is for the dynamic loader. Built twice. As a library to preload it makes that process: where LOADED_PROGRAM names a
 * socket, it listens there instead of running main(). With -DCLIENT it is what tests find as the program: it hands over its
 * files, directory, arguments and environment, and ends as the fork does. The kernel kills the fork when the client is gone,
 * which holds a pipe open. Not the socket: where the client is stopped while it sends, the fork may read all before the kernel
 * says that it is there, which is a signal too.
 * For another user, or with a library to preload, or where nobody listens, the client becomes the program itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FILES = 5, MOST = 1 << 18 }; /* standard input, output, error, the directory, and the pipe; bytes of words */

extern char **environ;

struct request { /* loaded_programs.py sends it too */
    uint32_t length, arguments, variables, uid; /* of the words that follow */
};

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(FILES * sizeof(int))];
};

static int at_socket(const char *path, int (*how)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return fd < 0 || how(fd, (const struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

#ifdef CLIENT

static char words[MOST];

static size_t add(size_t at, char *const *list, uint32_t *count)
{
    for (; *list != NULL; list++, ++*count) {
        size_t size = strlen(*list) + 1;
        if (at + size > MOST)
            return MOST + 1;
        memcpy(words + at, *list, size);
        at += size;
    }
    return at;
}

/* Returns the exit code of the program's run, or -1 where it cannot be asked for. */
static int ask(char **argv)
{
    struct request request = {.uid = geteuid()};
    size_t length = add(add(0, argv, &request.arguments), environ, &request.variables);
    int alive[2] = {-1, -1};
    int fd = length > MOST || pipe2(alive, O_CLOEXEC) ? -1 : at_socket(SOCKET, connect);
    int files[FILES] = {0, 1, 2, open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), alive[0]};
    union control control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof files)}};
    struct iovec parts[] = {{&request, sizeof request}, {words, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    unsigned char code;
    request.length = (uint32_t)length;
    memcpy(CMSG_DATA(&control.header), files, sizeof files);
    if (fd < 0 || sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)(sizeof request + length))
        return -1;
    if (recv(fd, &code, 1, 0) != 1 || code != 0) /* not for this user */
        return -1;
    if (recv(fd, &code, 1, 0) != 1)
        raise(SIGKILL); /* by a signal, as the fork */
    return code;
}

int main(int argc, char **argv)
{
    int code = argc < 1 || getenv("LD_PRELOAD") != NULL ? -1 : ask(argv);
    if (code >= 0)
        _exit(code);
    execv(PROGRAM, argv);
    perror(PROGRAM);
    return 127;
}

#else

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_function *program;
static int alive; /* the pipe that the client holds open */

static void tell(int code, void *client)
{
    unsigned char byte = (unsigned char)code;
    fflush(NULL); /* before the client goes on */
    fcntl(alive, F_SETFL, 0);
    (void)!send((int)(intptr_t)client, &byte, 1, MSG_NOSIGNAL);
}

static char **list_of(char **word, uint32_t count)
{
    char **list = calloc(count + 1, sizeof *list);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = *word;
        *word += strlen(*word) + 1;
    }
    return list;
}

static void run_for(int client)
{
    struct request request;
    union control control;
    struct iovec part = {&request, sizeof request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(client, &message, MSG_CMSG_CLOEXEC) != sizeof request || request.length > MOST)
        _exit(255);
    char *word = malloc(request.length + 1);
    for (size_t got = 0; got < request.length;) {
        ssize_t more = recv(client, word + got, request.length - got, 0);
        if (more <= 0)
            _exit(255);
        got += (size_t)more;
    }
    unsigned char refused = request.uid != geteuid();
    int files[FILES];
    memcpy(files, CMSG_DATA(&control.header), sizeof files);
    if (send(client, &refused, 1, MSG_NOSIGNAL) != 1 || refused)
        _exit(255);
    for (int i = 0; i < 3; i++)
        dup2(files[i], i);
    if (fchdir(files[3]))
        _exit(255);
    alive = files[4];
    for (int i = 0; i < 4; i++)
        close(files[i]);
    char **argv = list_of(&word, request.arguments);
    environ = list_of(&word, request.variables);
    signal(SIGCHLD, SIG_DFL);
    on_exit(tell, (void *)(intptr_t)client);
    fcntl(alive, F_SETOWN, getpid());
    fcntl(alive, F_SETSIG, SIGKILL);
    fcntl(alive, F_SETFL, O_ASYNC);
    struct pollfd hangup = {.fd = alive};
    if (poll(&hangup, 1, 0) > 0) /* gone before the line above */
        _exit(255);
    exit(program((int)request.arguments, argv, environ));
}

static int serve(int argc, char **argv, char **envp)
{
    const char *path = getenv("LOADED_PROGRAM");
    if (path == NULL)
        return program(argc, argv, envp);
    int server = at_socket(path, bind);
    if (server < 0 || listen(server, 64)) {
        perror(path);
        return 1;
    }
    unsetenv("LD_PRELOAD");
    signal(SIGCHLD, SIG_IGN);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    struct pollfd ready[] = {{.fd = server, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (poll(ready, 2, -1) > 0 && !ready[1].revents) { /* until the tests end */
        int client = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0 && fork() == 0) {
            close(server);
            run_for(client);
        }
        close(client);
    }
    return 0;
}

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
    start_function *start = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
    program = main;
    return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
#endif
