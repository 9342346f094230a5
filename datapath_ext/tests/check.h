/* Checks that say what they found. A test program is a list of functions. */
#ifndef TESTS_CHECK_H_
#define TESTS_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <doca_error.h>
#include <doca_flow_model.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

#define CHECK_EQ(found, expected)                                                                        \
    do {                                                                                                 \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                        \
        if (found_ != expected_) {                                                                       \
            (void)fprintf(stderr, "%s:%d: %s is %lld (0x%llx), expected %lld (0x%llx)\n", __FILE__,      \
                          __LINE__, #found, found_, (unsigned long long)found_, expected_,               \
                          (unsigned long long)expected_);                                                \
            abort();                                                                                     \
        }                                                                                                \
    } while (0)

#define CHECK_OK(call)                                                                                       \
    do {                                                                                                     \
        doca_error_t result_ = (call);                                                                       \
        if (result_ != DOCA_SUCCESS) {                                                                       \
            (void)fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,                          \
                          doca_error_get_name(result_), doca_flow_model_reason());                           \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Refused with this code, for a reason that has this text in it. */
#define CHECK_REFUSED(call, code, text)                                                                      \
    do {                                                                                                     \
        doca_error_t result_ = (call);                                                                       \
        if (result_ != (code) || strstr(doca_flow_model_reason(), (text)) == NULL) {                         \
            (void)fprintf(stderr, "%s:%d: %s: %s: \"%s\", expected %s and \"%s\"\n", __FILE__, __LINE__,     \
                          #call, doca_error_get_name(result_), doca_flow_model_reason(),                     \
                          doca_error_get_name(code), (text));                                                \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct test {
    const char *name;
    void (*run)(void);
};

#define TEST(function) {#function, function}

static inline int run_tests(const struct test *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(stderr, "%s\n", tests[i].name);
        tests[i].run();
    }
    (void)printf("%zu tests\n", count);
    return EXIT_SUCCESS;
}

#define RUN_TESTS(...)                                                  \
    int main(void)                                                      \
    {                                                                   \
        const struct test tests[] = {__VA_ARGS__};                      \
                                                                        \
        return run_tests(tests, sizeof(tests) / sizeof(tests[0]));      \
    }

#endif
