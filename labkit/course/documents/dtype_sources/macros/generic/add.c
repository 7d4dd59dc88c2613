// One body; each inclusion makes another function of it.
int Vector_(add)(Vector *c, const Vector *a, const Vector *b) {
    if (a->n != b->n || c->n != a->n) return 1;
    for (int64_t i = 0; i < c->n; i++) c->data[i] = (num)(a->data[i] + b->data[i]);
    return 0;
}
