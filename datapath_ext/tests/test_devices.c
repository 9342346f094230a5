/* Devices and representors by name, as the environment offers them; and tuning, which is declared and does nothing. */
#include "doca_assert.h"

#include <doca_dev.h>
#include <doca_flow_model.h>
#include <doca_flow_tune_server.h>

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
    static const struct {
        const char *name;
        enum doca_pci_func_type type;
        uint32_t sf; /* its number, for an SF */
    } expected[] = {{"pf0sf7", DOCA_PCI_FUNC_TYPE_SF, 7}, {"pf0vf1", DOCA_PCI_FUNC_TYPE_VF, 0},
                    {"c1pf0", DOCA_PCI_FUNC_TYPE_PF, 0}, {"pf0sf41", DOCA_PCI_FUNC_TYPE_SF, 41}};
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
        assert_true(strcmp(name, expected[i].name) == 0);
        assert_doca_ok(doca_devinfo_rep_get_pci_func_type(reps[i], &type));
        assert_int_equal(type, expected[i].type);
        if (type != DOCA_PCI_FUNC_TYPE_SF) {
            assert_doca_refused(doca_devinfo_rep_get_sf_index(reps[i], &sf), DOCA_ERROR_INVALID_VALUE, "is no name of one");
            continue;
        }
        assert_doca_ok(doca_devinfo_rep_get_sf_index(reps[i], &sf));
        assert_int_equal(sf, expected[i].sf);
    }
    assert_doca_refused(doca_devinfo_rep_get_sf_index(NULL, &sf), DOCA_ERROR_INVALID_VALUE, "without a device");
    assert_doca_ok(doca_dev_rep_open(reps[3], &rep));
    assert_doca_ok(doca_devinfo_rep_destroy_list(reps));
    assert_doca_ok(doca_dev_rep_close(rep));
    assert_doca_ok(doca_dev_close(dev));
    assert_int_equal(unsetenv("DOCA_FLOW_MODEL_DEVICES"), 0);
}

static void tuning_is_taken_and_has_no_server(void **state)
{
    struct doca_flow_tune_server_cfg *server;
    struct doca_flow_tune_cfg *tune;
    struct doca_flow_cfg *cfg;

    assert_doca_ok(doca_flow_tune_cfg_create(&tune));
    assert_doca_ok(doca_flow_tune_cfg_set_profile(tune, DOCA_FLOW_TUNE_PROFILE_FULL));
    assert_doca_refused(doca_flow_tune_cfg_set_profile(tune, (enum doca_flow_tune_profile)1), DOCA_ERROR_INVALID_VALUE,
                        "tune_cfg_set_profile");
    assert_doca_ok(doca_flow_cfg_create(&cfg));
    assert_doca_ok(doca_flow_cfg_set_tune_cfg(cfg, tune));
    assert_doca_refused(doca_flow_cfg_set_tune_cfg(cfg, NULL), DOCA_ERROR_INVALID_VALUE, "cfg_set_tune_cfg");
    assert_doca_ok(doca_flow_cfg_destroy(cfg));
    assert_doca_ok(doca_flow_tune_cfg_destroy(tune));
    assert_doca_refused(doca_flow_tune_cfg_create(NULL), DOCA_ERROR_INVALID_VALUE, "tune_cfg_create");

    /* Public programs go on without a server where it is not supported, and end at any other refusal. */
    assert_doca_ok(doca_flow_tune_server_cfg_create(&server));
    assert_doca_ok(doca_flow_tune_server_cfg_set_mode(server, DOCA_FLOW_TUNE_SERVER_MODE_BASIC));
    assert_doca_refused(doca_flow_tune_server_init(server), DOCA_ERROR_NOT_SUPPORTED, "has none");
    assert_doca_ok(doca_flow_tune_server_cfg_destroy(server));
    doca_flow_tune_server_destroy();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_offers_devices_and_representors),
        cmocka_unit_test(tuning_is_taken_and_has_no_server),
    };

    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
