// Way 4: the switch. `add` is compiled for eight dtypes, `sqrt` by its tag for two.
#include "dispatch.h"

#include <cmath>
#include <cstring>

static int report(const std::exception &error, char *message, int64_t room) {
    std::strncpy(message, error.what(), static_cast<size_t>(room - 1));
    message[room - 1] = '\0';
    return 1;
}

extern "C" int lab_add(int dtype, void *c, const void *a, const void *b, int64_t n, char *message,
                       int64_t room) {
    try {
        LAB_DISPATCH_SWITCH(dtype, "lab_add", LAB_ALL_TYPES_AND_BOOL([&] {
            const auto *x = static_cast<const scalar_t *>(a);
            const auto *y = static_cast<const scalar_t *>(b);
            auto *out = static_cast<scalar_t *>(c);
            for (int64_t i = 0; i < n; i++) out[i] = static_cast<scalar_t>(x[i] + y[i]);
        }));
    } catch (const std::exception &error) {
        return report(error, message, room);
    }
    return 0;
}

extern "C" int lab_sqrt(int dtype, void *c, const void *a, int64_t n, char *message,
                        int64_t room) {
    try {
        LAB_DISPATCH_SWITCH(dtype, "lab_sqrt", LAB_FLOATING_TYPES([&] {
            const auto *x = static_cast<const scalar_t *>(a);
            auto *out = static_cast<scalar_t *>(c);
            for (int64_t i = 0; i < n; i++) out[i] = std::sqrt(x[i]);
        }));
    } catch (const std::exception &error) {
        return report(error, message, room);
    }
    return 0;
}
