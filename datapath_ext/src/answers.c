#include "answers.h"

#include <stdlib.h>
#include <string.h>

#include "shim.h"
#include "translate.h"

static struct answer *find(const struct service *service, const struct address *backend)
{
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        if (memcmp(&answer->backend, backend, sizeof(*backend)) == 0)
            return answer;
    return NULL;
}

static bool add(struct dataplane *dataplane, struct service *service, const struct vip *vip,
                const struct address *backend, struct fault *fault)
{
    struct answer *answer = calloc(1, sizeof(*answer));
    bool done;

    if (answer == NULL)
        return fault_set(fault, "no memory for answers");
    done = classifier_add_answer(&dataplane->answers, vip, backend, service->id, service->priority,
                                 dataplane->delivery.to_ip4, &answer->entry, fault);
    if (answer->entry == NULL) {
        free(answer);
        return false;
    }
    answer->backend = *backend;
    answer->used = true;
    answer->next = service->answers;
    service->answers = answer;
    return done; /* what failed late is removed with the service */
}

/* A backend that lost its slots still answers what it was asked before. Its answers are let in as long as it is in the
 * program and no other VIP could have asked. */
static bool may_come(const struct program *program, const struct vip *vip, const struct address *address)
{
    unsigned number = 0;

    while (number < program->backend_count &&
           memcmp(&program->backends[number].address, address, sizeof(*address)) != 0)
        number++;
    if (number == program->backend_count)
        return false;
    for (size_t i = 0; i < program->vip_count; i++) {
        const struct vip *other = &program->vips[i];

        if (other == vip || other->forward != FORWARD_SIIT || other->port != vip->port ||
            other->protocol != vip->protocol)
            continue;
        for (unsigned slot = 0; slot < other->slot_count; slot++)
            if (other->slots[slot] == number)
                return false;
    }
    return true;
}

bool answers_follow(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault)
{
    struct flow_port *out = &dataplane->flow.ports[PORT_OUT];

    if (vip->forward != FORWARD_SIIT)
        return true;
    if (service->source == NULL &&
        !answer_add(&dataplane->delivery, out, service->id, &vip->address, &service->source, fault))
        return false;
    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        answer->used = may_come(program, vip, &answer->backend);
    for (unsigned i = 0; i < vip->slot_count; i++) {
        const struct address *backend = &program->backends[vip->slots[i]].address;
        struct answer *answer = find(service, backend);

        if (answer != NULL)
            answer->used = true;
        else if (!add(dataplane, service, vip, backend, fault))
            return false;
    }
    return flow_wait(out, fault);
}

bool answers_prune(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    struct flow_port *out = &dataplane->flow.ports[PORT_OUT];
    struct answer **link = &service->answers;

    while (*link != NULL) {
        struct answer *answer = *link;

        if (answer->used) {
            link = &answer->next;
            continue;
        }
        if (!flow_queued(out, shim_remove(answer->entry), fault, "removing answers of a backend"))
            return false;
        *link = answer->next;
        free(answer);
    }
    return flow_wait(out, fault);
}

bool answers_remove(struct dataplane *dataplane, struct service *service, struct fault *fault)
{
    struct flow_port *out = &dataplane->flow.ports[PORT_OUT];
    bool done;

    for (struct answer *answer = service->answers; answer != NULL; answer = answer->next)
        answer->used = false;
    done = answers_prune(dataplane, service, fault);
    if (service->source != NULL)
        done = flow_queued(out, shim_remove(service->source), fault, "removing the source of answers") && done;
    return flow_wait(out, fault) && done;
}
