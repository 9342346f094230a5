/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef DNSTEER_ON_MODEL
#include <doca_flow_model.h>
#endif

/* The length of the UTF-8 sequence at the start of the text, 0 if there is none. */
static size_t sequence(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = (uint8_t)text[0];
    size_t length = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xe ? 3 : first >> 3 == 0x1e ? 4 : 0;
    uint32_t code = length > 1 ? first & (0x7fU >> length) : first;

    for (size_t i = 1; i < length; i++) {
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

/* Reasons are sent and logged as JSON, which holds nothing but UTF-8. What was cut in the middle of a character, or came
 * from a command line, may be something else. */
static void clean(char *text)
{
    while (*text != '\0') {
        size_t length = sequence(text);

        if (length == 0)
            *text = '?';
        text += length == 0 ? 1 : length;
    }
}

bool fault_set(struct fault *fault, const char *format, ...)
{
    va_list arguments;

    if (fault->text[0] != '\0')
        return false;
    va_start(arguments, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    clean(fault->text);
    return false;
}

bool fault_doca(struct fault *fault, doca_error_t result, const char *format, ...)
{
    const char *reason = "";
    size_t used;
    va_list arguments;

    if (fault->text[0] != '\0')
        return false;
    fault->code = result;
#ifdef DNSTEER_ON_MODEL
    reason = doca_flow_model_reason();
#endif
    va_start(arguments, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    used = strlen(fault->text);
    (void)snprintf(fault->text + used, sizeof(fault->text) - used, ": %s%s%s", doca_error_get_name(result),
                   reason[0] != '\0' ? ": " : "", reason);
    clean(fault->text);
    return false;
}

bool fault_about(struct fault *fault, const char *kind, const char *name)
{
    char text[sizeof(fault->text)];

    memcpy(text, fault->text, sizeof(text));
    (void)snprintf(fault->text, sizeof(fault->text), "%s %.160s: %.330s", kind, name, text);
    clean(fault->text);
    return false;
}
