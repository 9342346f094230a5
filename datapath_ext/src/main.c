/* SPDX-License-Identifier: Apache-2.0 */
/* dnsteer-ext: what Open vSwitch cannot express or offload, as a DOCA Flow program. See README.md. */
#include <ctype.h>
#include <doca_log.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "log.h"
#include "platform.h"
#include "server.h"

struct options {
    const char *program, *socket;
    int core;
    bool check, help;
    enum log_level level;
};

static const char usage[] =
    "usage: dnsteer-ext --program FILE --socket PATH [--core N] [--log-level debug|info|warning|error]\n"
    "       dnsteer-ext --program FILE --check\n"
    "\n"
    "Runs the program that dnsteer rendered and serves commands on the socket, as JSON lines:\n"
    "load, status, counters, dump, drain, stop. --check reads the program and says what is wrong with it.\n"
    "--core binds DPDK's one thread to a processor core; without it, it runs on any that the process may.\n";

#define CORES_MOST ((size_t)1 << 16) /* cpu_set_t has 1,024, and the kernel refuses to fill a set smaller than its own */

/* Tried, since a core that is isolated is none of those that the process has, and it may run there all the same. */
static bool may_run_on(int core)
{
    size_t size = CPU_ALLOC_SIZE(CORES_MOST);
    cpu_set_t *before = CPU_ALLOC(CORES_MOST), *wanted = CPU_ALLOC(CORES_MOST);
    bool may = false;

    if (before != NULL && wanted != NULL) {
        CPU_ZERO_S(size, wanted);
        CPU_SET_S((size_t)core, size, wanted);
        may = sched_getaffinity(0, size, before) == 0 && sched_setaffinity(0, size, wanted) == 0 &&
              sched_setaffinity(0, size, before) == 0;
    }
    CPU_FREE(wanted);
    CPU_FREE(before);
    return may;
}

static bool read_core(const char *text, int *core, struct fault *fault)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || number >= CORES_MOST)
        return fault_set(fault, "--core: found %s, expected the number of a core", text);
    *core = (int)number;
    return true;
}

static bool read_options(int argc, char **argv, struct options *options, struct fault *fault)
{
    static const struct option known[] = {{"program", required_argument, NULL, 'p'},
                                          {"socket", required_argument, NULL, 's'},
                                          {"core", required_argument, NULL, 'n'},
                                          {"log-level", required_argument, NULL, 'l'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;

    options->level = LOG_INFO;
    options->core = ANY_CORE;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "p:s:n:l:ch", known, NULL)) != -1)
        switch (option) {
        case 'p':
            options->program = optarg;
            break;
        case 's':
            options->socket = optarg;
            break;
        case 'n':
            if (!read_core(optarg, &options->core, fault))
                return false;
            break;
        case 'l':
            if (!log_level_from_name(optarg, &options->level))
                return fault_set(fault, "--log-level: found %s, expected debug, info, warning or error", optarg);
            break;
        case 'c':
            options->check = true;
            break;
        case 'h':
            options->help = true;
            return true;
        default:
            return fault_set(fault, "options: found %s, see --help", argv[optind - 1]);
        }
    if (optind < argc)
        return fault_set(fault, "options: found %s, see --help", argv[optind]);
    if (options->program == NULL || (options->socket == NULL && !options->check))
        return fault_set(fault, "options: expected --program and, without --check, --socket; see --help");
    if (!options->check && options->core != ANY_CORE && !may_run_on(options->core))
        return fault_set(fault, "--core: found %d, expected the number of a core that this process may run on",
                         options->core);
    return true;
}

/* What the library itself has to say goes to the journal too, from warnings on. */
static bool open_sdk_log(struct fault *fault)
{
    struct doca_log_backend *backend = NULL;
    doca_error_t result = doca_log_backend_create_with_file_sdk(stderr, &backend);

    if (result == DOCA_SUCCESS)
        result = doca_log_backend_set_sdk_level(backend, DOCA_LOG_LEVEL_WARNING);
    return result == DOCA_SUCCESS || fault_doca(fault, result, "the library's log");
}

/* The socket first: whoever is there already has the ports. */
static bool serve(const struct options *options, struct program *program, struct fault *fault)
{
    struct server *server = server_open(options->socket, fault);
    struct engine engine;
    bool done;

    if (server == NULL) {
        program_free(program);
        return false;
    }
    done = open_sdk_log(fault);
    if (!done)
        program_free(program);
    done = done && engine_open(&engine, program, fault);
    if (done) {
        done = server_run(server, &engine, fault);
        engine_close(&engine);
    }
    server_close(server);
    return done;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct fault fault = {0};
    struct program *program;
    bool done;

    if (!read_options(argc, argv, &options, &fault)) {
        log_event(LOG_ERROR, "options", "{s:s}", "error", fault.text);
        return 2;
    }
    if (options.help)
        return fputs(usage, stdout) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    log_set_level(options.level);
    platform_set_core(options.core);
    program = program_read_file(options.program, &fault);
    done = program != NULL;
    if (done && options.check)
        program_free(program);
    else if (done)
        done = serve(&options, program, &fault);
    if (!done)
        log_event(LOG_ERROR, "failed", "{s:s}", "error", fault.text);
    else if (!options.check)
        log_event(LOG_INFO, "stopped", "{}");
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
