/* ext-bench: what the program on the model does per second, in memory and between network devices. */
#include <doca_flow_model.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "log.h"

static const char usage[] =
    "usage: ext-bench [--memory | --wire] [--mode NAME] [--vips NUMBER] [--rounds NUMBER] [--seconds SECONDS]\n"
    "\n"
    "Prints JSON. --memory: direct calls. --wire: between network devices in a namespace of its own (root).\n"
    "Without either: both. Build it with --buildtype=release.\n";

bool setting_wants(const struct settings *settings, const struct mode *mode)
{
    return settings->mode == NULL || strcmp(settings->mode, mode->name) == 0;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return count == 0 ? 0 : count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void bench_open(struct engine *engine, const struct mode *mode, unsigned vips, const char *const devices[2])
{
    struct fault fault = {0};
    json_t *json = mode_program(mode, vips, devices);
    struct program *program = program_read(json, &fault);

    json_decref(json);
    for (unsigned i = 0; i < 2; i++)
        (void)doca_flow_model_device_add(devices[i]);
    if (program == NULL || !engine_open(engine, program, &fault)) {
        (void)fprintf(stderr, "%s: %s\n", mode->name, fault.text);
        exit(EXIT_FAILURE);
    }
}

static unsigned number(const char *text, const char *option)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || value == 0 || value > 1000) {
        (void)fprintf(stderr, "%s: found %s, expected a number from 1 to 1000\n", option, text);
        exit(2);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"memory", no_argument, NULL, 'm'},       {"wire", no_argument, NULL, 'w'},
        {"mode", required_argument, NULL, 'o'},   {"vips", required_argument, NULL, 'v'},
        {"rounds", required_argument, NULL, 'r'}, {"seconds", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},         {0}};
    struct settings settings = {.vips = 4, .rounds = 9, .wire_rounds = 3, .seconds = 1};
    bool memory = true, wire = true;
    json_t *json;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (option) {
        case 'm':
            wire = false;
            break;
        case 'w':
            memory = false;
            break;
        case 'o':
            settings.mode = optarg;
            break;
        case 'v':
            settings.vips = number(optarg, "--vips");
            break;
        case 'r':
            settings.rounds = settings.wire_rounds = number(optarg, "--rounds");
            break;
        case 's':
            settings.seconds = number(optarg, "--seconds");
            break;
        default:
            (void)fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? EXIT_SUCCESS : 2;
        }
    log_set_level(LOG_WARNING);
    json = json_pack("{s:o, s:i}", "machine", machine_json(), "vips", (int)settings.vips);
    if (memory)
        (void)json_object_set_new(json, "memory", memory_json(&settings));
    if (wire)
        (void)json_object_set_new(json, "wire", wire_json(&settings));
    (void)json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(5));
    (void)putchar('\n');
    json_decref(json);
    return EXIT_SUCCESS;
}
