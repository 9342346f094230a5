/* SPDX-License-Identifier: Apache-2.0 */
#include <doca_flow_model.h>
#include <stdlib.h>

#include "bench.h"
#include "require.h"

/* A slice is so short that most of them run undisturbed, whatever else the machine does: the middle one counts. */
enum { SLICES = 101, ROUNDS_MAX = 101 };

#if defined(__x86_64__)
static uint64_t cycles(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static uint64_t cycles(void)
{
    return 0;
}
#endif

static void run(const struct packets *packets)
{
    for (unsigned i = 0; i < PACKETS; i++) {
        struct doca_flow_model_result result;

        REQUIRE(doca_flow_model_receive(packets->port, packets->bytes[i], packets->length, &result) == DOCA_SUCCESS);
        REQUIRE(result.count == 1 && result.outputs[0].verdict == DOCA_FLOW_MODEL_SENT);
        doca_flow_model_result_free(&result);
    }
}

static void measure(const struct mode *mode, const struct settings *settings, double *ns, double *tsc)
{
    static const char *const devices[2] = {"bench-in", "bench-out"};
    static struct packets packets;
    double slices[SLICES], slices_tsc[SLICES];
    struct engine engine;

    mode_packets(mode, mode->direction == ANSWERS, settings->vips, &packets);
    bench_open(&engine, mode, settings->vips, devices);
    run(&packets); /* warms up */
    for (unsigned i = 0; i < SLICES; i++) {
        uint64_t started = now_ns(), started_tsc = cycles();

        run(&packets);
        slices_tsc[i] = (double)(cycles() - started_tsc) / PACKETS;
        slices[i] = (double)(now_ns() - started) / PACKETS;
    }
    engine_close(&engine);
    *ns = median(slices, SLICES);
    *tsc = median(slices_tsc, SLICES);
}

json_t *memory_json(const struct settings *settings)
{
    double (*ns)[ROUNDS_MAX] = calloc(mode_count, sizeof(*ns)), (*tsc)[ROUNDS_MAX] = calloc(mode_count, sizeof(*tsc));
    unsigned rounds = settings->rounds < ROUNDS_MAX ? settings->rounds : ROUNDS_MAX;
    json_t *json = json_object();

    REQUIRE(ns != NULL && tsc != NULL);
    /* Modes take turns, so that what else the machine does hits all of them. */
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < mode_count; i++)
            if (setting_wants(settings, &modes[i]) && modes[i].direction != BOTH)
                measure(&modes[i], settings, &ns[i][round], &tsc[i][round]);
    for (size_t i = 0; i < mode_count; i++)
        if (setting_wants(settings, &modes[i]) && modes[i].direction != BOTH) {
            double middle = median(ns[i], rounds); /* sorts */

            (void)json_object_set_new(
                json, modes[i].name,
                json_pack("{s:i, s:f, s:[f,f], s:i}", "packets_per_second", (int)(1e9 / middle), "ns", middle,
                          "ns_range", ns[i][0], ns[i][rounds - 1], "tsc_cycles", (int)median(tsc[i], rounds)));
        }
    free(ns);
    free(tsc);
    return json;
}
