/* SPDX-License-Identifier: Apache-2.0 */
/* dnsteer-ext-frames: the same program on the model in this process, without devices and without root. Frames and
 * commands come as JSON lines on standard input, answers go to standard output. See README.md. */
#include <doca_flow_model.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "engine.h"
#include "frames_batch.h"
#include "json_read.h"
#include "log.h"

struct options {
    const char *program;
    unsigned long long seed;
    bool strict, help;
    enum log_level level;
};

struct frames {
    struct engine engine;
    bool open; /* there has been a program that the ports could be opened for */
};

static const char usage[] =
    "usage: dnsteer-ext-frames [--program FILE] [--strict] [--seed NUMBER] [--log-level debug|info|warning|error]\n"
    "\n"
    "Runs a program on the software model and answers JSON lines from standard input on standard output:\n"
    "{\"frames\": [[\"in\", \"<hex>\"], ...]} and the commands of dnsteer-ext's socket: load, status, counters, dump,\n"
    "drain, stop. Without --program, the first load opens the ports. --strict refuses what no public program or\n"
    "document shows. --seed chooses other random numbers.\n";

static bool read_seed(const char *text, unsigned long long *seed, struct fault *fault)
{
    char *end;

    errno = 0;
    *seed = strtoull(text, &end, 10);
    return (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *seed > 0) ||
           fault_set(fault, "--seed: found %s, expected a number from 1 to 2^64-1", text);
}

static bool read_options(int argc, char **argv, struct options *options, struct fault *fault)
{
    static const struct option known[] = {{"program", required_argument, NULL, 'p'},
                                          {"strict", no_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'n'},
                                          {"log-level", required_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;

    *options = (struct options){.seed = 1, .level = LOG_WARNING};
    opterr = 0;
    while ((option = getopt_long(argc, argv, "p:sn:l:h", known, NULL)) != -1)
        switch (option) {
        case 'p':
            options->program = optarg;
            break;
        case 's':
            options->strict = true;
            break;
        case 'n':
            if (!read_seed(optarg, &options->seed, fault))
                return false;
            break;
        case 'l':
            if (!log_level_from_name(optarg, &options->level))
                return fault_set(fault, "--log-level: found %s, expected debug, info, warning or error", optarg);
            break;
        case 'h':
            options->help = true;
            return true;
        default:
            return fault_set(fault, "options: found %s, see --help", argv[optind - 1]);
        }
    return optind == argc || fault_set(fault, "options: found %s, see --help", argv[optind]);
}

/* Takes the program over. The model has whatever devices the program names. */
static bool open_engine(struct frames *frames, struct program *program, struct fault *fault)
{
    const char *names[PORTS] = {program->in, program->out};

    for (unsigned i = 0; i < PORTS; i++) {
        doca_error_t result = doca_flow_model_device_add(names[i]);

        if (result != DOCA_SUCCESS) {
            (void)fault_doca(fault, result, "port %s", names[i]);
            program_free(program);
            return false;
        }
    }
    frames->open = engine_open(&frames->engine, program, fault);
    return frames->open;
}

/* The load that opens the ports; its answer has the form of any other's. */
static json_t *first_load(struct frames *frames, struct reader *reader, struct fault *fault)
{
    json_t *json = json_object_get(reader->object, "program");
    const struct dataplane *dataplane = &frames->engine.dataplane;
    struct program *program;

    if (reader_member(reader, "program", "a program", true) == NULL || !reader_close(reader))
        return NULL;
    program = program_read(json, fault);
    if (program == NULL || !open_engine(frames, program, fault))
        return NULL;
    return json_pack("{s:b, s:i, s:i, s:i, s:i, s:i}", "ok", 1, "added", (int)dataplane->added, "replaced", 0,
                     "removed", 0, "slots_updated", 0, "backends_updated", 0);
}

static json_t *before_program(struct frames *frames, const json_t *request, bool *stop, struct fault *fault)
{
    const json_t *command = json_object_get(request, "command");
    const char *name = json_string_value(command);
    struct reader reader;

    if (reader_open(&reader, request, "request", fault) && name != NULL) {
        (void)reader_member(&reader, "command", "a command", true);
        if (strcmp(name, "load") == 0)
            return first_load(frames, &reader, fault);
        if (strcmp(name, "stop") == 0 && reader_close(&reader)) {
            *stop = true;
            return json_pack("{s:b}", "ok", 1);
        }
    }
    (void)fault_set(fault, "request: there is no program yet, expected {\"command\": \"load\", \"program\": {...}}");
    return NULL;
}

static json_t *run_line(struct frames *frames, const char *line, size_t length, bool *stop)
{
    struct fault fault = {0};
    /* Not bounded: there may be any number of frames, and whoever started us sends them. */
    json_t *request = read_json(line, length, "request", "an object", &fault), *answer = NULL;

    *stop = false;
    if (request != NULL && !frames->open)
        answer = before_program(frames, request, stop, &fault);
    else if (json_object_get(request, "frames") != NULL)
        answer = frames_batch(request, &fault);
    else if (request != NULL)
        answer = command_answer(&frames->engine, request, stop, &fault);
    json_decref(request);
    return answer != NULL ? answer : json_pack("{s:b, s:s}", "ok", 0, "error", fault.text);
}

static bool put(json_t *answer, struct fault *fault)
{
    bool done = answer != NULL && json_dumpf(answer, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF &&
                fflush(stdout) == 0;

    json_decref(answer);
    return done || fault_set(fault, "writing an answer: %s", strerror(errno));
}

/* Until the input ends or someone asks to stop. */
static bool serve(struct frames *frames, struct fault *fault)
{
    bool done = true, stop = false;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;

    while (done && !stop && (length = getline(&line, &size, stdin)) > 0) {
        if (line[length - 1] == '\n')
            length--;
        done = put(run_line(frames, line, (size_t)length, &stop), fault);
    }
    free(line);
    return done;
}

static bool run(const struct options *options, struct fault *fault)
{
    struct frames frames = {0};
    struct program *program;
    bool done = true;

    /* What is set for dnsteer-ext must not connect ports here, nor change what frames meet. */
    if (unsetenv("DOCA_FLOW_MODEL_PORTS") != 0 || unsetenv("DOCA_FLOW_MODEL_DEVICES") != 0)
        return fault_set(fault, "the environment: %s", strerror(errno));
    doca_flow_model_set_strict(options->strict);
    doca_flow_model_seed(options->seed);
    if (options->program != NULL) {
        program = program_read_file(options->program, fault);
        done = program != NULL && open_engine(&frames, program, fault);
        if (!done) /* whoever talks to us waits for a line */
            (void)put(json_pack("{s:b, s:s}", "ok", 0, "error", fault->text), fault);
    }
    done = done && serve(&frames, fault);
    if (frames.open)
        engine_close(&frames.engine);
    return done;
}

int main(int argc, char **argv)
{
    struct options options;
    struct fault fault = {0};

    if (!read_options(argc, argv, &options, &fault)) {
        log_event(LOG_ERROR, "options", "{s:s}", "error", fault.text);
        return 2;
    }
    if (options.help)
        return fputs(usage, stdout) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    log_set_level(options.level);
    if (run(&options, &fault))
        return EXIT_SUCCESS;
    log_event(LOG_ERROR, "failed", "{s:s}", "error", fault.text);
    return EXIT_FAILURE;
}
