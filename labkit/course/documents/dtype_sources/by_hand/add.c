// Way 1: every function written out. Two dtypes, two structs, two bodies that must stay alike.
#include <stdint.h>

typedef struct FloatVector { float *data; int64_t n; } FloatVector;
typedef struct DoubleVector { double *data; int64_t n; } DoubleVector;

// Returns 0, or 1 when the lengths differ: nothing is written then.
int FloatVector_add(FloatVector *c, const FloatVector *a, const FloatVector *b) {
    if (a->n != b->n || c->n != a->n) return 1;
    for (int64_t i = 0; i < c->n; i++) c->data[i] = a->data[i] + b->data[i];
    return 0;
}

int DoubleVector_add(DoubleVector *c, const DoubleVector *a, const DoubleVector *b) {
    if (a->n != b->n || c->n != a->n) return 1;
    for (int64_t i = 0; i < c->n; i++) c->data[i] = a->data[i] + b->data[i];
    return 0;
}
