/* SPDX-License-Identifier: Apache-2.0 */
#include "frames_batch.h"

#include <doca_flow_model.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "json_read.h"

enum { FRAME_MAX = 65535, HEX_MAX = 2 * FRAME_MAX };

static const char *const ports[PORTS] = {"in", "out"};
static const char expected[] = "[\"in\" or \"out\", 1 to 65535 bytes in hexadecimal]";

/* -1: none. */
static int nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

static bool read_frame(const json_t *pair, unsigned *port, uint8_t *frame, size_t *length)
{
    const json_t *word = json_array_get(pair, 0), *hex = json_array_get(pair, 1);
    const char *name = json_string_value(word), *digits = json_string_value(hex);
    size_t count = json_string_length(hex);

    if (json_array_size(pair) != 2 || name == NULL || digits == NULL || count == 0 || count % 2 != 0 ||
        count > HEX_MAX)
        return false;
    for (*port = 0; strcmp(name, ports[*port]) != 0;)
        if (++*port == PORTS)
            return false;
    for (size_t i = 0; i < count / 2; i++) {
        int high = nibble(digits[2 * i]), low = nibble(digits[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        frame[i] = (uint8_t)(high << 4 | low);
    }
    *length = count / 2;
    return true;
}

static json_t *left(const struct doca_flow_model_output *output, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    json_t *pair = json_array();

    for (size_t i = 0; i < output->length; i++) {
        hex[2 * i] = digits[output->frame[i] >> 4];
        hex[2 * i + 1] = digits[output->frame[i] & 15];
    }
    (void)json_array_append_new(pair, json_string(output->port_id < PORTS ? ports[output->port_id] : "?"));
    (void)json_array_append_new(pair, json_stringn_nocheck(hex, 2 * output->length));
    return pair;
}

static bool run_frame(unsigned port, const uint8_t *frame, size_t length, char *hex, json_t *results,
                      json_t *verdicts, struct fault *fault)
{
    struct doca_flow_model_result result;
    doca_error_t code = doca_flow_model_receive((uint16_t)port, frame, length, &result);
    json_t *all = json_array(), *verdict = json_array();

    if (code != DOCA_SUCCESS) {
        json_decref(all);
        json_decref(verdict);
        return fault_doca(fault, code, "receiving a frame");
    }
    for (size_t i = 0; i < result.count; i++)
        if (result.outputs[i].verdict == DOCA_FLOW_MODEL_SENT)
            (void)json_array_append_new(all, left(&result.outputs[i], hex));
    /* The program's pipes never copy, so one verdict says it. */
    (void)json_array_append_new(
        verdict, json_string(result.count > 0 ? doca_flow_model_verdict_name(result.outputs[0].verdict) : "broken"));
    (void)json_array_append_new(verdict, json_string(result.count > 0 ? result.outputs[0].reason : "no result"));
    (void)json_array_append_new(results, all);
    (void)json_array_append_new(verdicts, verdict);
    doca_flow_model_result_free(&result);
    return true;
}

static bool check_frames(const struct reader *reader, const json_t *frames, uint8_t *frame)
{
    const json_t *pair;
    size_t i, length;
    unsigned port;

    json_array_foreach(frames, i, pair)
        if (!read_frame(pair, &port, frame, &length)) {
            struct reader at = *reader;

            (void)snprintf(at.path, sizeof(at.path), "request.frames[%zu]", i);
            return read_refuse(&at, NULL, pair, expected);
        }
    return true;
}

static json_t *run_frames(const json_t *frames, uint8_t *frame, char *hex, struct fault *fault)
{
    json_t *results = json_array(), *verdicts = json_array(), *pair;
    size_t i, length;
    unsigned port;

    json_array_foreach(frames, i, pair)
        if (!read_frame(pair, &port, frame, &length) ||
            !run_frame(port, frame, length, hex, results, verdicts, fault)) {
            json_decref(results);
            json_decref(verdicts);
            return NULL;
        }
    return json_pack("{s:b, s:o, s:o}", "ok", 1, "results", results, "verdicts", verdicts);
}

json_t *frames_batch(const json_t *request, struct fault *fault)
{
    uint8_t *frame = malloc(FRAME_MAX);
    char *hex = malloc(2 * (FRAME_MAX + 1UL));
    json_t *answer = NULL;
    const json_t *frames;
    struct reader reader;

    if (frame == NULL || hex == NULL)
        (void)fault_set(fault, "no memory for a frame");
    else if (reader_open(&reader, request, "request", fault) &&
             read_array(&reader, "frames", "an array of frames", &frames) && reader_close(&reader) &&
             check_frames(&reader, frames, frame))
        answer = run_frames(frames, frame, hex, fault);
    if (answer == NULL)
        (void)fault_set(fault, "no memory for an answer");
    free(frame);
    free(hex);
    return answer;
}
