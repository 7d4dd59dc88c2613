// Way 2: one template; the compiler writes a copy per dtype that is asked for.
#include <cstdint>

template <typename num>
struct Vector {
    num *data;
    int64_t n;
};

template <typename num>
int add(Vector<num> *c, const Vector<num> *a, const Vector<num> *b) {
    if (a->n != b->n || c->n != a->n) return 1;
    for (int64_t i = 0; i < c->n; i++) c->data[i] = static_cast<num>(a->data[i] + b->data[i]);
    return 0;
}

// Asked for explicitly, so that the copies exist in this library; their names are mangled, so C
// and ctypes find them through the table.
#define X(NAME, CTYPE, CODE) \
    template int add<CTYPE>(Vector<CTYPE> *, const Vector<CTYPE> *, const Vector<CTYPE> *);
#include "../macros/dtypes.h"
#undef X

extern "C" void *add_for(int dtype) {
    switch (dtype) {
#define X(NAME, CTYPE, CODE) \
    case CODE: return reinterpret_cast<void *>(&add<CTYPE>);
#include "../macros/dtypes.h"
#undef X
    }
    return nullptr;
}
