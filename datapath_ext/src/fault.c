#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef DNSTEER_ON_MODEL
#include <doca_flow_model.h>
#endif

bool fault_set(struct fault *fault, const char *format, ...)
{
    va_list arguments;

    if (fault->text[0] != '\0')
        return false;
    va_start(arguments, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    return false;
}

bool fault_doca(struct fault *fault, doca_error_t result, const char *format, ...)
{
    const char *reason = "";
    size_t used;
    va_list arguments;

    if (fault->text[0] != '\0')
        return false;
#ifdef DNSTEER_ON_MODEL
    reason = doca_flow_model_reason();
#endif
    va_start(arguments, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    used = strlen(fault->text);
    (void)snprintf(fault->text + used, sizeof(fault->text) - used, ": %s%s%s", doca_error_get_name(result),
                   reason[0] != '\0' ? ": " : "", reason);
    return false;
}

bool fault_about(struct fault *fault, const char *kind, const char *name)
{
    char text[sizeof(fault->text)];

    memcpy(text, fault->text, sizeof(text));
    (void)snprintf(fault->text, sizeof(fault->text), "%s %.64s: %.430s", kind, name, text);
    return false;
}
