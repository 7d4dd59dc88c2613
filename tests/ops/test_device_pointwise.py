"""Operators on device tensors: the answers of the host, on the device, or a detour that is seen."""

import math
import random
import subprocess
import sys
import warnings

import pytest

import labkit as lab
from labkit import cuda
from labkit.core import dtype as dtypes
from labkit.core.device import Device
from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.ops import device_kernels, fallback, kernel_source, pointwise

CUDA = Device("cuda", 0)
DTYPES = ("bool_", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64")


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=16 << 20)
    with cuda.use(driver):
        yield driver
    device_kernels._kernel.cache_clear()
    driver.worker.stop()


@pytest.fixture(autouse=True)
def nothing_fell_back():
    """Tests that mean to fall back say so; in all others a warning is a failure."""
    fallback.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.FallbackWarning)
        yield
    fallback.reset()


def numbers(dtype, count, rng):
    if dtype.kind == "bool":
        return [rng.random() < 0.5 for _ in range(count)]
    if dtype.is_integral:
        low, high = (0, 256) if dtype is dtypes.uint8 else (-(2**15), 2**15)
        return [rng.choice([low, high - 1, rng.randrange(low, high)]) for _ in range(count)]
    special = [0.0, -0.0, float("inf"), float("nan"), 60000.0]
    return [rng.choice([*special, *[rng.gauss(0, 3) for _ in range(8)]]) for _ in range(count)]


def strided(dtype, shape, rng):
    """A tensor that broadcasts to `shape`, seldom contiguous, twice: on the host, on the device."""
    sizes = [size if rng.random() < 0.7 else 1 for size in shape][rng.randrange(len(shape)) :]
    order = rng.sample(range(len(sizes)), len(sizes))
    stored = [sizes[dim] * rng.choice([1, 2]) for dim in order]  # every element, or every other one
    flat = lab.tensor(numbers(dtype, 2 + math.prod(stored), rng), dtype=dtype)
    return [seen(flat.to(place)[2:], stored, order, sizes) for place in ("cpu", "cuda")]


def seen(flat, stored, order, sizes):
    x = flat.view(stored)
    x = x.permute([order.index(dim) for dim in range(len(order))])
    for dim, size in enumerate(sizes):
        x = x[(slice(None),) * dim + (slice(None, None, x.shape[dim] // size),)]
    return x


def same(on_device, on_host):
    assert on_device.device == CUDA
    assert (on_device.shape, on_device.dtype) == (on_host.shape, on_host.dtype)
    assert text(on_device.cpu()) == text(on_host)


def text(x):
    """All values, NaN equal to NaN, and 0.0 to -0.0."""
    return repr(x.tolist()).replace("-0.0", "0.0")


def allowed(operation, *operands):
    """The answer, or the words in which it is refused."""
    try:
        return operation(*operands)
    except RuntimeError as refusal:
        return str(refusal)


UNARY = {"neg", "bitwise_not", "abs"}
BINARY = sorted(set(kernel_source.EXPRESSIONS) - UNARY)
PAIRS = [(name, name) for name in DTYPES] + [
    ("int64", "float16"), ("uint8", "int16"), ("bfloat16", "float32"), ("bool_", "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_kernel_answers_as_the_host_does(left, right):
    rng = random.Random(f"{left} {right}")
    for name in rng.sample(sorted(set(BINARY) - {"remainder"}), 2):
        for _ in range(3):
            shape = rng.choice([(3, 4), (2, 1, 5), (2, 3, 4)])
            a, a_device = strided(getattr(dtypes, left), shape, rng)
            b, b_device = strided(getattr(dtypes, right), shape, rng)
            expected = allowed(getattr(a, name), b)
            answer = allowed(getattr(a_device, name), b_device)
            if isinstance(expected, str):
                assert answer == expected
            else:
                same(answer, expected)
    assert fallback.counts() == {}


@pytest.mark.parametrize("name", BINARY)
def test_every_operator_on_smaller_equal_and_greater_operands(name):
    dtype = lab.float32 if name in ("div", "remainder") else lab.int64
    x = lab.tensor([-3, -1, 0, 1, 3], dtype=dtype)
    expected = getattr(x.view(5, 1), name)(x)
    same(getattr(x.to("cuda").view(5, 1), name)(x.to("cuda")), expected)


@pytest.mark.parametrize("name", DTYPES)
def test_operators_of_one_operand(name):
    rng = random.Random(name)
    x, x_device = strided(getattr(dtypes, name), (2, 3, 4), rng)
    for operator in sorted(UNARY):
        expected = allowed(getattr(x, operator))
        answer = allowed(getattr(x_device, operator))
        if isinstance(expected, str):
            assert answer == expected
        else:
            same(answer, expected)
            assert answer.stride() == expected.stride()


def test_remainder_has_the_sign_of_the_divisor():
    x = [5.5, -5.5, 5.5, -5.5, -1.0, 0.0]
    y = [3.0, 3.0, -3.0, -3.0, float("inf"), 2.0]
    same(lab.tensor(x, device="cuda") % lab.tensor(y, device="cuda"), lab.tensor(x) % lab.tensor(y))


def test_strides_of_a_result_follow_the_operands():
    x = lab.zeros(2, 3, 4, device="cuda").permute(2, 0, 1)
    assert (x + x).stride() == x.stride()
    assert (x + lab.zeros(3, device="cuda")).stride() == x.stride()
    assert (x + lab.zeros(2, 1, device="cuda", dtype=lab.int64)).dtype is lab.float32


def test_numbers_and_scalars_of_the_host_join_in():
    x = lab.zeros(4, device="cuda")
    assert repr(x + 1) == "tensor([1., 1., 1., 1.], device='cuda:0')"
    assert (2 - x).tolist() == [2.0] * 4
    assert (lab.tensor(3.0) + x).device == CUDA
    assert (lab.tensor(3.0) + lab.tensor(4.0, device="cuda")).item() == 7.0
    assert (lab.arange(3, device="cuda") + 0.5).dtype is lab.float32


def test_nothing_to_compute_is_no_launch():
    empty = lab.zeros(0, 3, device="cuda") + 1
    assert (empty.shape, empty.device) == ((0, 3), CUDA)


def test_writing_in_place_keeps_the_storage_and_its_other_bytes():
    whole = lab.zeros(3, 4, device="cuda")
    column = whole[:, 1]
    address = column.data_ptr()
    column += 2
    column *= column
    column.sub_(lab.tensor([1, 2, 3], device="cuda"))
    assert (column.data_ptr(), whole._version) == (address, 3)
    assert whole.tolist() == [[0, 3, 0, 0], [0, 2, 0, 0], [0, 1, 0, 0]]


def test_a_lazy_clone_is_left_before_it_is_written():
    first = lab.ones(3, device="cuda")
    second = first._lazy_clone()
    second += first
    assert (first.tolist(), second.tolist()) == ([1.0] * 3, [2.0] * 3)


def test_tensors_of_two_devices_are_refused():
    host, device = lab.zeros(3), lab.zeros(3, device="cuda")
    expected = (
        "Expected all tensors to be on the same device, but found at least two devices, "
        "cuda:0 and cpu!"
    )
    scalar = lab.tensor(1.0, device="cuda")
    refused = [
        lambda: host + device, lambda: device + host, lambda: host + scalar,
        lambda: host.add_(device), lambda: lab.tensor(1.0).add_(scalar), lambda: host.equal(device),
    ]  # fmt: skip
    for operation in refused:
        with pytest.raises(RuntimeError) as refusal:
            operation()
        assert str(refusal.value) == expected
    assert host.tolist() == [0.0] * 3


def test_what_has_no_kernel_is_right_and_counted_and_warned_of_once():
    x = lab.arange(4, device="cuda").view(2, 2).t()
    with pytest.warns(fallback.FallbackWarning, match="mul on .* no device kernel for complex64"):
        answer = x * 2j
    assert (answer.device, answer.tolist()) == (CUDA, [[0, 4j], [2j, 6j]])
    assert answer.stride() == x.stride()
    assert (x * 1j).tolist() == [[0, 2j], [1j, 3j]]  # a second warning would be an error
    assert fallback.counts() == {"mul": 2}
    with pytest.warns(fallback.FallbackWarning, match="remainder .* divided by 0"):
        assert (x % 2).tolist() == [[0, 0], [1, 1]]
    fallback.reset()
    assert fallback.counts() == {}


def test_in_place_without_a_kernel_writes_back_into_the_same_storage():
    x = lab.arange(4, device="cuda")
    address = x.data_ptr()
    with pytest.warns(fallback.FallbackWarning) as caught:
        x %= 3
    assert caught[0].filename == __file__
    assert (x.data_ptr(), x.tolist(), x._version) == (address, [0, 1, 2, 0], 1)


DETOURS = {
    "clone": lambda x: x.clone(),
    "_to_copy": lambda x: x.to(lab.int32),
    "copy_": lambda x: x.copy_(lab.zeros(3, device="cuda")),
    "fill_": lambda x: x.fill_(2),
    "nonzero": lambda x: x.nonzero(),
    "index": lambda x: x[lab.tensor([0, 2])],
    "index_put_": lambda x: x.index_put_((lab.tensor([0, 2]),), lab.tensor([5.0, 6.0])),
    "masked_fill_": lambda x: x.masked_fill_(lab.tensor([True, False, True]), 9),
}


@pytest.mark.parametrize("name", DETOURS)
def test_other_operators_are_seen_to_fall_back(name):
    expected_of = lab.tensor([1.0, 2.0, 3.0])
    x = expected_of.to("cuda")
    expected = expected_of.copy_(lab.zeros(3)) if name == "copy_" else DETOURS[name](expected_of)
    with pytest.warns(fallback.FallbackWarning, match=f"{name} on a device tensor"):
        answer = DETOURS[name](x)
    assert fallback.counts() == {name: 1}
    same(answer, expected)


def test_transfers_and_reading_are_no_detours():
    x = lab.arange(3).to("cuda")
    assert (x.tolist(), x[1].item(), x.cpu().tolist()) == ([0, 1, 2], 1, [0, 1, 2])
    assert fallback.counts() == {}


def test_one_kernel_serves_every_shape_of_as_many_dimensions():
    device_kernels._kernel.cache_clear()
    for size in (1, 2, 300):
        x = lab.ones(size, device="cuda")
        assert (x + x).tolist() == [2.0] * size
    assert device_kernels._kernel.cache_info().misses == 1


def test_every_expression_belongs_to_an_operator():
    operators = {op.base for op in pointwise.OPERATORS.values()}
    assert set(kernel_source.EXPRESSIONS) <= operators


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(device_kernels, "_kernel", device_kernels._kernel.__wrapped__)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    x = lab.ones(2, 2, device="cuda").t()
    with pytest.raises(CompilerMissing, match=r"sudo apt install g\+\+"):
        x + x[0]


def test_the_host_alone_never_imports_the_device():
    program = "import sys, labkit as lab; lab.ones(3) + 1; sys.exit('labkit.cuda' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
