/* What leads the answers of a siit VIP's backends back; other VIPs have none. */
#ifndef ANSWERS_H_
#define ANSWERS_H_

#include "service.h"

/* Lets in answers of all backends that the VIP now has; those that cannot come any more are marked as unused. */
bool answers_follow(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault);
bool answers_prune(struct dataplane *dataplane, struct service *service, struct fault *fault);
bool answers_remove(struct dataplane *dataplane, struct service *service, struct fault *fault);

#endif
