/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what the API was given: the program's own may be gone after the call. */
#include <stdlib.h>
#include <string.h>

#include "actions.h"
#include "core.h"

static doca_error_t copy_string(const char *string, const char **target)
{
    *target = NULL;
    if (string == NULL)
        return DOCA_SUCCESS;
    *target = strdup(string);
    return *target != NULL ? DOCA_SUCCESS : refuse(DOCA_ERROR_NO_MEMORY, "no memory for a field's name");
}

static doca_error_t copy_descs(const struct doca_flow_action_descs *descs, struct action_template *target)
{
    doca_error_t result = DOCA_SUCCESS;

    if (descs == NULL || descs->nb_action_desc == 0)
        return DOCA_SUCCESS;
    if (descs->desc_array == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "%u action descriptors without an array", descs->nb_action_desc);
    target->descs = calloc(descs->nb_action_desc, sizeof(*target->descs));
    if (target->descs == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for action descriptors");
    for (unsigned i = 0; i < descs->nb_action_desc && result == DOCA_SUCCESS; i++) {
        struct doca_flow_action_desc *copy = &target->descs[i];

        *copy = descs->desc_array[i];
        copy->field_op.src.field_string = copy->field_op.dst.field_string = NULL;
        target->desc_count++;
        result = copy_string(descs->desc_array[i].field_op.src.field_string, &copy->field_op.src.field_string);
        if (result == DOCA_SUCCESS)
            result = copy_string(descs->desc_array[i].field_op.dst.field_string, &copy->field_op.dst.field_string);
    }
    return result;
}

doca_error_t template_copy(const struct doca_flow_actions *actions, const struct doca_flow_actions *mask,
                           const struct doca_flow_action_descs *descs, struct action_template *target)
{
    doca_error_t result;

    memset(target, 0, sizeof(*target));
    if (actions != NULL)
        target->actions = *actions;
    if (mask != NULL) {
        target->mask = *mask;
        target->has_mask = true;
    }
    result = copy_descs(descs, target);
    if (result != DOCA_SUCCESS)
        template_clear(target);
    return result;
}

void template_clear(struct action_template *target)
{
    for (unsigned i = 0; i < target->desc_count; i++) {
        free((void *)(uintptr_t)target->descs[i].field_op.src.field_string);
        free((void *)(uintptr_t)target->descs[i].field_op.dst.field_string);
    }
    free(target->descs);
    memset(target, 0, sizeof(*target));
}
