/* What leads the answers of a siit VIP's backends back; other VIPs have none. */
#ifndef ANSWERS_H_
#define ANSWERS_H_

#include "service.h"

/* Lets in answers of all backends that the VIP now has; those that cannot come any more are marked as unused. */
bool answers_follow(struct dataplane *dataplane, struct service *service, const struct program *program,
                    const struct vip *vip, struct fault *fault);
/* What the service before still lets in, and may come, the one that takes over lets in too, as far as there is room. */
bool answers_inherit(struct dataplane *dataplane, struct service *service, const struct service *before,
                     const struct program *program, struct fault *fault);
bool answers_prune(struct dataplane *dataplane, struct service *service, struct fault *fault);
bool answers_remove(struct dataplane *dataplane, struct service *service, struct fault *fault);

#endif
