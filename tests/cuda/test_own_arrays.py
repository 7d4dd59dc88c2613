"""Which subscripts are of an array that a function declares for itself."""

import pytest

from labkit.cuda.own_arrays import subscripts, told


@pytest.mark.parametrize(
    ("body", "subscripted"),
    [
        ("float a[4]; a[i] = 1;", 2),
        ("unsigned int a[4]; a[i] += a[0];", 3),
        ("float first, a[4] = {0}; x = f(a[i], b[i]);", 2),
        ("alignas(16) float* a[4];\n#pragma unroll\nfor (;;) a [i] = 0;", 2),
        ("const cuda::pair<int> a[N]; a[i].b[j] = 0; s->a[i] = 0; s.a[i] = 0;", 2),
        ("float *x, *a[4]; a[i] = 0;", 2),
        ("__shared__ float a[4]; a[i] = 0;", 0),
        ("extern __shared__ float a[]; a[i] = 0;", 0),
        ("__shared__ __align__(16) float b[2], a[4]; a[i] = 0;", 0),
        ("auto& a = tile[0]; a[i] = 0;", 0),
        ("float (&a)[4] = tile[0]; a[i] = 0;", 0),
        ("return a[i];", 0),
        ("// float a[4];\nx = a[i];", 0),
    ],
)
def test_of_a_body(body, subscripted):
    places = list(subscripts(f"__global__ void k(float* b) {{ {body} }}"))
    assert [name for name, _, _ in places] == ["a"] * 3 * subscripted


def test_a_parameter_may_be_a_part_of_anything():
    code = "__device__ float f(const float a[4][8], int i) { return a[0][i]; }"
    assert not list(subscripts(code))
    assert list(subscripts(code.replace("a[4]", "b[4]").replace("{", "{ float a[1][1];")))


def test_one_name_in_two_roles_is_left_alone():
    code = "void f() { float a[4]; a[5] = 0; } void g() { __shared__ float a[4][4]; a[0][5] = 0; }"
    assert not list(subscripts(code))


def test_places_are_as_the_compilers_count():
    code = "void f() {\n  int a[2][3];\n\ta[i][ b[j] ] = 0;\n}\n"
    assert [(line, column) for _, line, column in subscripts(code)] == [
        (2, 7), (2, 8), (2, 10), (2, 11), (2, 13), (3, 2), (3, 3), (3, 5), (3, 6), (3, 13),
    ]  # fmt: skip


def test_nothing_stands_behind_a_source_without_any():
    assert told({"a.cu": "__global__ void k(float* x) { x[0] = 1; }"}) == ""
