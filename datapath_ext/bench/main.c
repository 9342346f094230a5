/* SPDX-License-Identifier: Apache-2.0 */
/* ext-bench: what the program on the model does per second, in memory and between network devices. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "log.h"

static const char usage[] =
    "usage: ext-bench [--memory | --wire] [--mode NAME] [--vips NUMBER] [--rounds NUMBER] [--seconds SECONDS]\n"
    "\n"
    "Prints JSON. --memory: direct calls. --wire: between network devices in a namespace of its own (root).\n"
    "Without either: both. Build it with --buildtype=release.\n";

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
