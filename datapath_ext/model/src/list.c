/* SPDX-License-Identifier: Apache-2.0 */
/* Ordered lists: actions, counters and NAT64 one after the other, laid out by the pipe and filled by the entry. */
#include <stdlib.h>
#include <string.h>

#include "objects.h"

static doca_error_t copy_element(const struct doca_flow_ordered_list_element *element, struct list_element *copy)
{
    copy->type = element->type;
    switch (element->type) {
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_ACTIONS:
        if (element->actions == NULL)
            return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list element ACTIONS without actions");
        return template_copy(element->actions, element->actions_mask, element->action_descs, &copy->actions);
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_MONITOR:
        if (element->monitor == NULL)
            return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list element MONITOR without a monitor");
        copy->monitor = *element->monitor;
        return DOCA_SUCCESS;
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64:
        if (element->nat64 == NULL)
            return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list element NAT64 without its action");
        copy->nat64 = *element->nat64;
        return DOCA_SUCCESS;
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_CRYPTO:
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "ordered list element CRYPTO; the model has no cryptography");
    default:
        return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list element of type %d", (int)element->type);
    }
}

doca_error_t list_copy(const struct doca_flow_ordered_list *list, struct list *copy)
{
    doca_error_t result = DOCA_SUCCESS;

    memset(copy, 0, sizeof(*copy));
    if (list->size == 0 || list->elements == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list without elements");
    copy->elements = calloc(list->size, sizeof(*copy->elements));
    if (copy->elements == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an ordered list");
    for (uint32_t i = 0; i < list->size && result == DOCA_SUCCESS; i++) {
        result = copy_element(&list->elements[i], &copy->elements[i]);
        copy->size++;
    }
    if (result != DOCA_SUCCESS)
        list_clear(copy);
    return result;
}

void list_clear(struct list *list)
{
    for (uint32_t i = 0; i < list->size; i++)
        template_clear(&list->elements[i].actions);
    free(list->elements);
    memset(list, 0, sizeof(*list));
}

static doca_error_t compile_element(struct doca_flow_port *port, const struct list_element *shape,
                                 const struct doca_flow_ordered_list_element *given, struct compiled_element *compiled)
{
    compiled->type = shape->type;
    if (given->type != shape->type)
        return refuse(DOCA_ERROR_INVALID_VALUE, "ordered list element of type %d where the pipe has type %d",
                      (int)given->type, (int)shape->type);
    switch (shape->type) {
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_ACTIONS:
        return actions_compile(&shape->actions, COMPILE_ENTRY, given->actions, port, &compiled->actions);
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_MONITOR:
        return watch_create(port, &shape->monitor, given->monitor, &compiled->watch);
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_NAT64:
        compiled->actions.nat64 = shape->nat64.original_l3_type; /* the pipe's rules; public entries bring zeros */
        return DOCA_SUCCESS;
    case DOCA_FLOW_ORDERED_LIST_ELEMENT_CRYPTO:
    default:
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "ordered list element of type %d", (int)shape->type);
    }
}

doca_error_t list_compile(struct doca_flow_pipe *pipe, const struct doca_flow_ordered_list *list,
                       struct doca_flow_pipe_entry *entry)
{
    const struct list *shape;
    doca_error_t result = DOCA_SUCCESS;

    if (list == NULL || list->idx >= pipe->cfg.list_count)
        return refuse(DOCA_ERROR_INVALID_VALUE, "entry of pipe %s without a list, or with one that it has not",
                      pipe->cfg.name);
    shape = &pipe->cfg.lists[list->idx];
    if (list->size != shape->size || list->elements == NULL)
        return refuse(DOCA_ERROR_INVALID_VALUE, "list %u of pipe %s with %u elements; it has %u", list->idx,
                      pipe->cfg.name, list->size, shape->size);
    entry->elements = calloc(shape->size, sizeof(*entry->elements));
    if (entry->elements == NULL)
        return refuse(DOCA_ERROR_NO_MEMORY, "no memory for an ordered list");
    for (uint32_t i = 0; i < shape->size && result == DOCA_SUCCESS; i++) {
        entry->element_count++;
        result = compile_element(pipe->cfg.port, &shape->elements[i], &list->elements[i], &entry->elements[i]);
    }
    return result;
}

void list_clear_compiled(struct doca_flow_port *port, struct doca_flow_pipe_entry *entry)
{
    for (uint32_t i = 0; i < entry->element_count; i++) {
        actions_clear(&entry->elements[i].actions);
        watch_clear(port, &entry->elements[i].watch);
    }
    free(entry->elements);
    entry->elements = NULL;
    entry->element_count = 0;
}
