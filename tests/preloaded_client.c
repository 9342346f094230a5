/* What tests put where a program of preloaded.py is looked for: it asks for a fork, and ends as that ends.
 *
 * Built for each program with the name of its SOCKET. A script in Python took as long as a module of Ansible that it asked for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 7, MOST = 1 << 20, REFUSED = 126 };
/* From a program's last output to its client's end, in microseconds, as the interpreter takes. Ansible waits for output a
 * second at a time, and takes none of a program that writes and ends between such a wait and the look whether it has ended. */
enum { END = 20000 };

extern char **environ;

/* The request, as Python's module marshal reads it. */
static unsigned char request[MOST];
static size_t length;

static void put(const void *bytes, size_t count)
{
    if (length + count > MOST)
        _exit(REFUSED);
    memcpy(request + length, bytes, count);
    length += count;
}

static void put_number(char code, uint32_t number)
{
    put(&code, 1);
    for (int shift = 0; shift < 32; shift += 8) {
        unsigned char byte = (unsigned char)(number >> shift);
        put(&byte, 1);
    }
}

static void put_text(const char *text, size_t count)
{
    put_number('u', (uint32_t)count);
    put(text, count);
}

static uint32_t received(int fd)
{
    unsigned char bytes[4];
    if (recv(fd, bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes)
        raise(SIGKILL); /* whoever could say more is gone */
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

int main(int argc, char **argv)
{
    put_number('(', 6);
    put_number('[', (uint32_t)argc);
    for (int i = 0; i < argc; i++)
        put_text(argv[i], strlen(argv[i]));
    put("{", 1);
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t name = strcspn(*variable, "=");
        if ((*variable)[name] == '\0')
            continue;
        put_text(*variable, name);
        put_text(*variable + name + 1, strlen(*variable + name + 1));
    }
    put("0", 1);
    put_number('i', (uint32_t)getpriority(PRIO_PROCESS, 0));
    put("FNF", 3);

    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    int alive[2], fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) || pipe2(alive, O_CLOEXEC))
        return REFUSED;
    int files[FILES] = {0, 1, 2, alive[0], open(".", O_RDONLY), open("/proc/self/ns/net", O_RDONLY),
                        open("/proc/self/ns/mnt", O_RDONLY)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof files)];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof files)}};
    memcpy(CMSG_DATA(&control.header), files, sizeof files);
    unsigned char size[] = {length >> 24 & 0xff, length >> 16 & 0xff, length >> 8 & 0xff, length & 0xff};
    struct iovec parts[] = {{size, sizeof size}, {request, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != sizeof size)
        return REFUSED;
    for (size_t sent = 0; sent < length;) {
        ssize_t more = send(fd, request + sent, length - sent, MSG_NOSIGNAL);
        if (more <= 0)
            return REFUSED;
        sent += (size_t)more;
    }
    received(fd); /* the process */
    int status = (int)received(fd);
    usleep(END);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
