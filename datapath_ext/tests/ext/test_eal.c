/* SPDX-License-Identifier: Apache-2.0 */
/* platform_dpdk.c on DPDK itself: what it makes of the arguments. */
#include <rte_bus.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <sched.h>

#include "../doca_assert.h"
#include "platform.h"

int __real_rte_eal_init(int argc, char **argv);
int __wrap_rte_eal_init(int argc, char **argv);

/* Memory as any machine has it, in place of huge pages. */
int __wrap_rte_eal_init(int argc, char **argv)
{
    char *arguments[20], none[] = "--no-huge", option[] = "-m", size[] = "64", alone[] = "--no-shconf";
    int count = 0;

    assert_true(argc + 3 < 20);
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--in-memory") != 0)
            arguments[count++] = argv[i];
    arguments[count++] = none;
    arguments[count++] = option;
    arguments[count++] = size;
    arguments[count++] = alone;
    arguments[count] = NULL;
    return __real_rte_eal_init(count, arguments);
}

/* A bus is searched only for what is allowed, once something is; nothing has these names. */
static void expect_list(const char *bus, const char *name)
{
    struct rte_devargs *devargs = rte_devargs_next(bus, NULL);

    assert_true(devargs != NULL);
    assert_true(strcmp(devargs->name, name) == 0);
    assert_int_equal(devargs->policy, RTE_DEV_ALLOWED);
    assert_true(rte_devargs_next(bus, devargs) == NULL);
}

static void has_a_list_for_each_bus_and_one_thread(void **state)
{
    struct fault fault = {0};
    cpu_set_t before, after;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    if (!platform_up(&fault))
        (void)fprintf(stderr, "%s\n", fault.text);
    assert_true(fault.text[0] == '\0');
    expect_list("pci", "00:00.0");
    expect_list("auxiliary", "");
    assert_int_equal(rte_lcore_count(), 1);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    platform_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_a_list_for_each_bus_and_one_thread),
    };

    return cmocka_run_group_tests_name("ext_eal", tests, NULL, NULL);
}
