/* SPDX-License-Identifier: Apache-2.0 */
#include "dev.h"

#include <stdlib.h>
#include <string.h>

#include <doca_flow_model.h>

#include "core.h"

enum { DEVICES_MAX = 64, NAME_MAX_ = 128 };

struct doca_devinfo {
    char name[NAME_MAX_];
    struct doca_dev *dev; /* NULL until it is opened */
};

struct doca_dev {
    struct doca_devinfo *info;
    unsigned opened;
    int port;
};

struct doca_devinfo_rep {
    char name[NAME_MAX_];
    struct doca_dev *dev;
};

struct doca_dev_rep {
    struct doca_devinfo_rep info;
};

static struct doca_devinfo devices[DEVICES_MAX];
static struct {
    struct doca_devinfo_rep info;
    char device[NAME_MAX_];
} reps[DEVICES_MAX];
static unsigned device_count, rep_count;

/* "DEVICE,REPRESENTOR" */
static bool offer_rep(const char *name, const char *comma)
{
    size_t length = (size_t)(comma - name);

    for (unsigned i = 0; i < rep_count; i++)
        if (strncmp(reps[i].device, name, length) == 0 && reps[i].device[length] == '\0' &&
            strcmp(reps[i].info.name, comma + 1) == 0)
            return true;
    if (rep_count == DEVICES_MAX || length == 0 || length >= NAME_MAX_ || comma[1] == '\0' ||
        strlen(comma + 1) >= NAME_MAX_)
        return false;
    memcpy(reps[rep_count].device, name, length);
    reps[rep_count].device[length] = '\0';
    memcpy(reps[rep_count].info.name, comma + 1, strlen(comma + 1) + 1);
    rep_count++;
    return true;
}

static struct doca_devinfo *offer(const char *name)
{
    if (name[0] == '\0' || strlen(name) >= NAME_MAX_)
        return NULL;
    for (unsigned i = 0; i < device_count; i++)
        if (strcmp(devices[i].name, name) == 0)
            return &devices[i];
    if (device_count == DEVICES_MAX)
        return NULL;
    memcpy(devices[device_count].name, name, strlen(name) + 1);
    return &devices[device_count++];
}

static bool offer_any(const char *name)
{
    const char *comma = strchr(name, ',');

    return comma != NULL ? offer_rep(name, comma) : offer(name) != NULL;
}

doca_error_t doca_flow_model_device_add(const char *name)
{
    bool done;

    if (name == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "device_add without a name");
    model_lock();
    done = offer_any(name);
    model_unlock();
    return done ? DOCA_SUCCESS : refuse(DOCA_ERROR_INVALID_VALUE, "device_add of \"%s\": no name of 1 to %d bytes, or "
                                        "more than %d devices", name, NAME_MAX_ - 1, DEVICES_MAX);
}

static void offer_configured(void)
{
    const char *value = getenv("DOCA_FLOW_MODEL_DEVICES");

    while (value != NULL && *value != '\0') {
        size_t length = strcspn(value, " ");
        char name[NAME_MAX_];

        if (length > 0 && length < sizeof(name)) {
            memcpy(name, value, length);
            name[length] = '\0';
            (void)offer_any(name);
        }
        value += length + strspn(value + length, " ");
    }
}

doca_error_t doca_devinfo_create_list(struct doca_devinfo ***list, uint32_t *count)
{
    struct doca_devinfo **infos;

    if (list == NULL || count == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_create_list without places for the list and its length");
    model_lock();
    offer_configured();
    infos = calloc(device_count + 1UL, sizeof(struct doca_devinfo *));
    for (unsigned i = 0; infos != NULL && i < device_count; i++)
        infos[i] = &devices[i];
    *list = infos;
    *count = device_count;
    model_unlock();
    return infos != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a list of devices");
}

doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **list)
{
    free((void *)list);
    return DOCA_SUCCESS;
}

static struct doca_dev *open_info(struct doca_devinfo *info)
{
    if (info->dev == NULL) {
        info->dev = calloc(1, sizeof(*info->dev));
        if (info->dev == NULL)
            return NULL;
        info->dev->info = info;
        info->dev->port = -1;
    }
    info->dev->opened++;
    return info->dev;
}

struct doca_dev *dev_open_name(const char *name)
{
    struct doca_devinfo *info;
    struct doca_dev *dev;

    model_lock();
    info = offer(name);
    dev = info != NULL ? open_info(info) : NULL;
    model_unlock();
    return dev;
}

doca_error_t doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev)
{
    if (info == NULL || dev == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dev_open without a device or a place for it");
    model_lock();
    *dev = open_info(info);
    model_unlock();
    return *dev != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a device");
}

doca_error_t doca_dev_close(struct doca_dev *dev)
{
    if (dev == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dev_close without a device");
    model_lock();
    if (--dev->opened == 0) {
        dev->info->dev = NULL;
        free(dev);
    }
    model_unlock();
    return DOCA_SUCCESS;
}

struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *dev)
{
    return dev != NULL ? dev->info : NULL;
}

struct doca_dev_rep *rep_open_name(struct doca_dev *dev, const char *name)
{
    struct doca_dev_rep *rep = calloc(1, sizeof(*rep));

    if (rep == NULL || strlen(name) >= sizeof(rep->info.name)) {
        free(rep);
        return NULL;
    }
    memcpy(rep->info.name, name, strlen(name) + 1);
    rep->info.dev = dev;
    dev->opened++;
    return rep;
}

doca_error_t doca_dev_rep_open(struct doca_devinfo_rep *info, struct doca_dev_rep **rep)
{
    if (info == NULL || rep == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dev_rep_open without a representor or a place for it");
    *rep = rep_open_name(info->dev, info->name);
    return *rep != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a representor");
}

doca_error_t doca_dev_rep_close(struct doca_dev_rep *rep)
{
    doca_error_t result;

    if (rep == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "dev_rep_close without a representor");
    result = doca_dev_close(rep->info.dev);
    free(rep);
    return result;
}

struct doca_dev *rep_dev(const struct doca_dev_rep *rep)
{
    return rep->info.dev;
}

const char *info_name(const struct doca_devinfo *info)
{
    return info != NULL ? info->name : NULL;
}

const char *rep_info_name(const struct doca_devinfo_rep *info)
{
    return info != NULL ? info->name : NULL;
}

int dev_port(const struct doca_dev *dev)
{
    return dev->port;
}

void dev_set_port(struct doca_dev *dev, int port)
{
    dev->port = port;
}

struct doca_dev *dev_by_port(int port)
{
    for (unsigned i = 0; i < device_count; i++)
        if (devices[i].dev != NULL && devices[i].dev->port == port)
            return devices[i].dev;
    return NULL;
}

doca_error_t doca_devinfo_rep_create_list(struct doca_dev *dev, int filter, struct doca_devinfo_rep ***list,
                                          uint32_t *count)
{
    struct doca_devinfo_rep **infos;

    (void)filter; /* all of them are of network functions */
    if (dev == NULL || list == NULL || count == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "devinfo_rep_create_list without a device or places");
    infos = calloc(DEVICES_MAX, sizeof(struct doca_devinfo_rep *));
    if (infos == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for a list of representors");
    *count = 0;
    model_lock();
    for (unsigned i = 0; i < rep_count; i++)
        if (strcmp(reps[i].device, dev->info->name) == 0) {
            reps[i].info.dev = dev;
            infos[(*count)++] = &reps[i].info;
        }
    model_unlock();
    *list = infos;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_destroy_list(struct doca_devinfo_rep **list)
{
    free((void *)list);
    return DOCA_SUCCESS;
}
