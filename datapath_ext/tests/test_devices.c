/* Devices and representors by name, as the environment offers them; and tuning, which is declared and does nothing. */
#include "check.h"

#include <doca_dev.h>
#include <doca_flow_model.h>
#include <doca_flow_tune_server.h>

static struct doca_devinfo *device_named(struct doca_devinfo **list, uint32_t count, const char *name)
{
    char found[DOCA_DEVINFO_IFACE_NAME_SIZE];

    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(doca_devinfo_get_iface_name(list[i], found, sizeof(found)));
        if (strcmp(found, name) == 0)
            return list[i];
    }
    return NULL;
}

static void the_environment_offers_devices_and_representors(void)
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

    CHECK_EQ(setenv("DOCA_FLOW_MODEL_DEVICES", "up0 up0,pf0sf7 up0,pf0vf1  aux/3 up0,c1pf0 up0,pf0sf41 up0,pf0sf7", 1), 0);
    CHECK_OK(doca_devinfo_create_list(&list, &count));
    CHECK_EQ(count, 2);
    CHECK(device_named(list, count, "up0,pf0sf7") == NULL);
    CHECK(device_named(list, count, "aux/3") != NULL);
    CHECK_OK(doca_devinfo_get_pci_func_type(device_named(list, count, "aux/3"), &type));
    CHECK_EQ(type, DOCA_PCI_FUNC_TYPE_SF);
    CHECK_OK(doca_devinfo_get_sf_index(device_named(list, count, "aux/3"), &sf));
    CHECK_EQ(sf, 3);
    CHECK_REFUSED(doca_devinfo_get_sf_index(device_named(list, count, "up0"), &sf), DOCA_ERROR_INVALID_VALUE,
                  "up0 is no name of one");
    CHECK_OK(doca_dev_open(device_named(list, count, "up0"), &dev));
    CHECK_OK(doca_devinfo_destroy_list(list));

    CHECK_OK(doca_devinfo_rep_create_list(dev, DOCA_DEVINFO_REP_FILTER_NET, &reps, &count));
    CHECK_EQ(count, 4);
    for (uint32_t i = 0; i < count; i++) {
        char name[DOCA_DEVINFO_REP_VUID_SIZE];

        CHECK_OK(doca_devinfo_rep_get_vuid(reps[i], name, sizeof(name)));
        CHECK(strcmp(name, expected[i].name) == 0);
        CHECK_OK(doca_devinfo_rep_get_pci_func_type(reps[i], &type));
        CHECK_EQ(type, expected[i].type);
        if (type != DOCA_PCI_FUNC_TYPE_SF) {
            CHECK_REFUSED(doca_devinfo_rep_get_sf_index(reps[i], &sf), DOCA_ERROR_INVALID_VALUE, "is no name of one");
            continue;
        }
        CHECK_OK(doca_devinfo_rep_get_sf_index(reps[i], &sf));
        CHECK_EQ(sf, expected[i].sf);
    }
    CHECK_REFUSED(doca_devinfo_rep_get_sf_index(NULL, &sf), DOCA_ERROR_INVALID_VALUE, "without a device");
    CHECK_OK(doca_dev_rep_open(reps[3], &rep));
    CHECK_OK(doca_devinfo_rep_destroy_list(reps));
    CHECK_OK(doca_dev_rep_close(rep));
    CHECK_OK(doca_dev_close(dev));
    CHECK_EQ(unsetenv("DOCA_FLOW_MODEL_DEVICES"), 0);
}

static void tuning_is_taken_and_has_no_server(void)
{
    struct doca_flow_tune_server_cfg *server;
    struct doca_flow_tune_cfg *tune;
    struct doca_flow_cfg *cfg;

    CHECK_OK(doca_flow_tune_cfg_create(&tune));
    CHECK_OK(doca_flow_tune_cfg_set_profile(tune, DOCA_FLOW_TUNE_PROFILE_FULL));
    CHECK_REFUSED(doca_flow_tune_cfg_set_profile(tune, (enum doca_flow_tune_profile)1), DOCA_ERROR_INVALID_VALUE,
                  "tune_cfg_set_profile");
    CHECK_OK(doca_flow_cfg_create(&cfg));
    CHECK_OK(doca_flow_cfg_set_tune_cfg(cfg, tune));
    CHECK_REFUSED(doca_flow_cfg_set_tune_cfg(cfg, NULL), DOCA_ERROR_INVALID_VALUE, "cfg_set_tune_cfg");
    CHECK_OK(doca_flow_cfg_destroy(cfg));
    CHECK_OK(doca_flow_tune_cfg_destroy(tune));
    CHECK_REFUSED(doca_flow_tune_cfg_create(NULL), DOCA_ERROR_INVALID_VALUE, "tune_cfg_create");

    /* Public programs go on without a server where it is not supported, and end at any other refusal. */
    CHECK_OK(doca_flow_tune_server_cfg_create(&server));
    CHECK_OK(doca_flow_tune_server_cfg_set_mode(server, DOCA_FLOW_TUNE_SERVER_MODE_BASIC));
    CHECK_REFUSED(doca_flow_tune_server_init(server), DOCA_ERROR_NOT_SUPPORTED, "has none");
    CHECK_OK(doca_flow_tune_server_cfg_destroy(server));
    doca_flow_tune_server_destroy();
}

RUN_TESTS(TEST(the_environment_offers_devices_and_representors), TEST(tuning_is_taken_and_has_no_server))
