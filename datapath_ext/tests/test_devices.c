/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and representors by name, as the environment offers them. */
#include "doca_assert.h"

#include <doca_dev.h>
#include <doca_flow_model.h>

static struct doca_devinfo *device_named(struct doca_devinfo **list, uint32_t count, const char *name)
{
    char found[DOCA_DEVINFO_IFACE_NAME_SIZE];

    for (uint32_t i = 0; i < count; i++) {
        assert_doca_ok(doca_devinfo_get_iface_name(list[i], found, sizeof(found)));
        if (strcmp(found, name) == 0)
            return list[i];
    }
    return NULL;
}

static void the_environment_offers_devices_and_representors(void **state)
{
    static const char *const expected[] = {"pf0sf7", "pf0vf1", "c1pf0", "pf0sf41"};
    struct doca_devinfo **list;
    struct doca_devinfo_rep **reps;
    struct doca_dev_rep *rep;
    enum doca_pci_func_type type;
    struct doca_dev *dev;
    uint32_t count, sf;

    assert_int_equal(setenv("DOCA_FLOW_MODEL_DEVICES", "up0 up0,pf0sf7 up0,pf0vf1  aux/3 up0,c1pf0 up0,pf0sf41 up0,pf0sf7", 1), 0);
    assert_doca_ok(doca_devinfo_create_list(&list, &count));
    assert_int_equal(count, 2);
    assert_true(device_named(list, count, "up0,pf0sf7") == NULL);
    assert_true(device_named(list, count, "aux/3") != NULL);
    assert_doca_ok(doca_devinfo_get_pci_func_type(device_named(list, count, "aux/3"), &type));
    assert_int_equal(type, DOCA_PCI_FUNC_TYPE_SF);
    assert_doca_ok(doca_devinfo_get_sf_index(device_named(list, count, "aux/3"), &sf));
    assert_int_equal(sf, 3);
    assert_doca_refused(doca_devinfo_get_sf_index(device_named(list, count, "up0"), &sf), DOCA_ERROR_INVALID_VALUE,
                        "up0 is no name of one");
    assert_doca_ok(doca_dev_open(device_named(list, count, "up0"), &dev));
    assert_doca_ok(doca_devinfo_destroy_list(list));

    assert_doca_ok(doca_devinfo_rep_create_list(dev, DOCA_DEVINFO_REP_FILTER_NET, &reps, &count));
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++) {
        char name[DOCA_DEVINFO_REP_VUID_SIZE];

        assert_doca_ok(doca_devinfo_rep_get_vuid(reps[i], name, sizeof(name)));
        assert_true(strcmp(name, expected[i]) == 0);
    }
    assert_doca_ok(doca_dev_rep_open(reps[3], &rep));
    assert_doca_ok(doca_devinfo_rep_destroy_list(reps));
    assert_doca_ok(doca_dev_rep_close(rep));
    assert_doca_ok(doca_dev_close(dev));
    assert_int_equal(unsetenv("DOCA_FLOW_MODEL_DEVICES"), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_offers_devices_and_representors),
    };

    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
