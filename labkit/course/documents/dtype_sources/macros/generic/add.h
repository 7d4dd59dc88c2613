// No guard: this file is meant to be included once per dtype, with num and Num set.
typedef struct Vector { num *data; int64_t n; } Vector;

extern int Vector_(add)(Vector *c, const Vector *a, const Vector *b);
