/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "json_read.h"
#include "report.h"

/* A command: its answer, or NULL and a fault. `reader` has the request. */
typedef json_t *(*run)(struct engine *engine, struct reader *reader, struct fault *fault);

static json_t *no_memory(json_t *answer, struct fault *fault)
{
    if (answer == NULL)
        (void)fault_set(fault, "no memory for an answer");
    return answer;
}

static json_t *run_load(struct engine *engine, struct reader *reader, struct fault *fault)
{
    const struct dataplane *dataplane = &engine->dataplane;
    json_t *json = json_object_get(reader->object, "program");
    struct program *program;

    if (reader_member(reader, "program", "a program", true) == NULL || !reader_close(reader))
        return NULL;
    program = program_read(json, fault);
    if (program == NULL) {
        engine_refuse(engine, fault);
        return NULL;
    }
    if (!engine_load(engine, program, fault))
        return NULL;
    return no_memory(json_pack("{s:b, s:i, s:i, s:i, s:i, s:i}", "ok", 1, "added", (int)dataplane->added, "replaced",
                               (int)dataplane->replaced, "removed", (int)dataplane->removed, "slots_updated",
                               (int)dataplane->slots_updated, "backends_updated", (int)dataplane->targets_updated),
                     fault);
}

static json_t *run_status(struct engine *engine, struct reader *reader, struct fault *fault)
{
    if (!reader_close(reader))
        return NULL;
    engine_check_ports(engine);
    return no_memory(report_status(engine), fault);
}

static json_t *run_counters(struct engine *engine, struct reader *reader, struct fault *fault)
{
    return reader_close(reader) ? report_counters(engine, fault) : NULL;
}

static json_t *run_slots(struct engine *engine, struct reader *reader, struct fault *fault)
{
    return reader_close(reader) ? report_slots(engine, fault) : NULL;
}

static json_t *run_dump(struct engine *engine, struct reader *reader, struct fault *fault)
{
    return reader_close(reader) ? no_memory(report_dump(engine), fault) : NULL;
}

static json_t *run_drain(struct engine *engine, struct reader *reader, struct fault *fault)
{
    const char *backend;
    unsigned slots;

    if (!read_name(reader, "backend", &backend) || !reader_close(reader) ||
        !engine_drain(engine, backend, &slots, fault))
        return NULL;
    return no_memory(json_pack("{s:b, s:i}", "ok", 1, "slots", (int)slots), fault);
}

static json_t *run_stop(struct engine *engine, struct reader *reader, struct fault *fault)
{
    (void)engine;
    return reader_close(reader) ? no_memory(json_pack("{s:b}", "ok", 1), fault) : NULL;
}

static const char *const names[] = {"load", "status", "counters", "slots", "dump", "drain", "stop", NULL};
static const run runs[] = {run_load, run_status, run_counters, run_slots, run_dump, run_drain, run_stop};

static json_t *run_request(struct engine *engine, const json_t *request, bool *stop, struct fault *fault)
{
    struct reader reader;
    unsigned number;
    json_t *answer;

    if (!reader_open(&reader, request, "request", fault) || !read_word(&reader, "command", names, &number))
        return NULL;
    answer = runs[number](engine, &reader, fault);
    *stop = answer != NULL && runs[number] == run_stop;
    return answer;
}

json_t *command_answer(struct engine *engine, const json_t *request, bool *stop, struct fault *fault)
{
    json_t *answer = NULL;

    *stop = false;
    if (request != NULL)
        answer = run_request(engine, request, stop, fault);
    return answer != NULL ? answer : json_pack("{s:b, s:s}", "ok", 0, "error", fault->text);
}

json_t *command_run(struct engine *engine, const char *line, size_t length, bool *stop)
{
    struct fault fault = {0};
    json_t *request = read_bounded(line, length, "request", "an object", &fault);
    json_t *answer = command_answer(engine, request, stop, &fault);

    json_decref(request);
    return answer;
}
