"""`kernel<<<...>>>(...)` as a C++ call."""

import time

import pytest

from labkit.cuda.errors import UnsupportedFeatureError
from labkit.cuda.programs.launches import as_calls
from labkit.cuda.source import parse

KERNELS = parse(
    "__global__ void k(int n) {} template <class T, int N> __global__ void t(T* x) {}"
    "namespace a { __global__ void k2() {} }"
).kernels


def rewritten(code):
    return as_calls(code, KERNELS, "file.cu")


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("k<<<1, 2>>>(n);", 'cuemu::launch(k, cuemu::named("k", 1, 2), n);'),
        ("a::k2 <<< g, b >>> ();", 'cuemu::launch(a::k2 , cuemu::named("a::k2",  g, b ) );'),
        (
            "t<float, (4 > 2)><<<g, b, 0, s>>>(x)",
            'cuemu::launch(t<float, (4 > 2)>, cuemu::named("t<float, (4 > 2)>", g, b, 0, s), x)',
        ),
        (
            "t<float><<<g, b>>>(x)",
            "cuemu::launch_deduced([](auto... cuemu_a) { t<float>(cuemu_a...); }, "
            'cuemu::named("t<float>", g, b), x)',
        ),
        ("p->table[i]<<<1, 1>>>(f(a, b))", None),
        ("(n > 3 ? k : k)<<<n >> 3, dim3(1, 2)>>>(n)", None),
        ("#define L(f) \\\n  f<<<1, 1>>> \\\n  (x)", None),
        ("k<<<vector<vector<int>>>(3), 2>>>(n)", None),
    ],
)
def test_a_launch_becomes_a_call(written, call):
    text = rewritten(written)
    assert "<<<" not in text.replace("vector<", "")
    assert text.count("cuemu::launch") == 1
    assert text.count("\n") == written.count("\n")
    if call is not None:
        assert text == call


@pytest.mark.parametrize(
    "text",
    [
        '"k<<<1, 1>>>(n)"',
        "// k<<<1, 1>>>(n)",
        'R"(k<<<1, 1>>>(n))"',
        "cout << a << b; int c = 1'000;",
    ],
)
def test_what_is_no_launch_stays(text):
    assert rewritten(text) == text


def test_a_cast_that_hides_a_kernel_is_gone():
    assert rewritten("cudaLaunchKernel((void*)k, g, b, (void**)args)") == (
        "cudaLaunchKernel(k, g, b, (void**)args)"
    )


def test_a_kernel_kept_as_a_pointer_remembers_its_parameters():
    assert rewritten("params.func = (void*)k;") == "params.func = cuemu::Known() ->* k;"
    assert rewritten("cudaMemcpy((void*)x, 0)") == "cudaMemcpy((void*)x, 0)"


def test_a_kernel_that_launches_is_refused_with_its_line():
    with pytest.raises(UnsupportedFeatureError, match=r"file.cu:2: .*dynamic parallelism"):
        rewritten("__global__ void k(int n) {\n  k<<<1, 1>>>(n);\n}")


def test_angle_brackets_with_room_between_them_are_a_launch():
    assert rewritten("k << < 1, n >> > (x);") == rewritten("k <<< 1, n >>> (x);")
    assert rewritten("f<A<B<C>> >(x); i << 3; j < 4;") == "f<A<B<C>> >(x); i << 3; j < 4;"


def test_a_long_comment_costs_no_more_than_it_is_long():
    code = f"/* {'word ' * 10_000} */ k<<<1, 2>>>(n);"
    start = time.process_time()
    assert rewritten(code).endswith('cuemu::launch(k, cuemu::named("k", 1, 2), n);')
    assert time.process_time() - start < 2
