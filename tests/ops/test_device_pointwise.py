"""Operators on device tensors: the answers of the host, on the device, or a detour that is seen."""

import functools
import math
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

import labkit as lab
from labkit import cuda
from labkit.core import dtype as dtypes
from labkit.core.device import Device
from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.ops import fallback
from labkit.ops.cuda import elementwise, elementwise_source, expressions, launching
from labkit.ops.pointwise import pointwise

CUDA = Device("cuda", 0)
DTYPES = ("bool_", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64")


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=16 << 20)
    with cuda.use(driver):
        yield driver
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
BINARY = [
    "add", "sub", "mul", "div", "remainder", "eq", "ne", "lt", "le", "gt", "ge",
    "bitwise_and", "bitwise_or", "bitwise_xor",
]  # fmt: skip
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
    "nonzero": lambda x: x.nonzero(),
    "index": lambda x: x[lab.tensor([0, 2])],
    "index_put_": lambda x: x.index_put_((lab.tensor([0, 2]),), lab.tensor([5.0, 6.0])),
    "masked_fill_": lambda x: x.masked_fill_(lab.tensor([True, False, True]), 9),
}


@pytest.mark.parametrize("name", DETOURS)
def test_other_operators_are_seen_to_fall_back(name):
    expected_of = lab.tensor([1.0, 2.0, 3.0])
    x = expected_of.to("cuda")
    expected = DETOURS[name](expected_of)
    with pytest.warns(fallback.FallbackWarning, match=f"{name} on a device tensor"):
        answer = DETOURS[name](x)
    assert fallback.counts() == {name: 1}
    same(answer, expected)


def test_transfers_and_reading_are_no_detours():
    x = lab.arange(3).to("cuda")
    assert (x.tolist(), x[1].item(), x.cpu().tolist()) == ([0, 1, 2], 1, [0, 1, 2])
    assert fallback.counts() == {}


def test_one_kernel_serves_every_shape_and_number():
    before = len(launching.kernels())
    for shape in ((1,), (300,), (2, 3), (2, 1, 2)):
        x = lab.ones(shape, device="cuda")
        answer = (x.mT if len(shape) > 1 else x).add(lab.ones((), device="cuda"), alpha=len(shape))
        assert answer.flatten().tolist() == [1.0 + len(shape)] * x.numel()
    assert len(launching.kernels()) == before + 1


def test_every_expression_belongs_to_an_operator():
    operators = {op.base for op in pointwise.OPERATORS.values()}
    assert set(expressions.EXPRESSIONS) - operators == {"copy_", "fill_", "masked_fill_"}


OTHERS = {
    "clamp": [{"min": -1}, {"max": 0.5}, {"min": -1, "max": 0.5}], "pow": [{"exponent": 3}],
    "threshold": [{"threshold": 0.5, "value": 7}], "gelu": [{}, {"approximate": "tanh"}],
    "gelu_backward": [{}, {"approximate": "tanh"}],
    "lerp": [{"weight": 0.7}],
    "softplus_backward": [{"beta": 2, "threshold": 3}], "clamp_min": [{"min": 0.25}],
    "clamp_max": [{"max": 0.25}], "threshold_backward": [{"threshold": 0.5}],
    "leaky_relu_backward": [{"negative_slope": 0.1, "self_is_result": False}],
    "addcmul": [{}, {"value": -0.5}],
    "addcdiv": [{"value": 2}], "add": [{"alpha": 0.25}], "sub": [{"alpha": -3}],
}  # fmt: skip
"""Operator -> the arguments that are no tensors, of each call."""


def calls():
    """Every operator with an expression for float32: its name, a call of it, its tensors."""
    for name, op in pointwise.OPERATORS.items():
        if op.base not in expressions.EXPRESSIONS or op.base.startswith("bitwise"):
            continue
        types = {argument.name: argument.type for argument in op.schema.arguments}
        tensors = [each for each, kind in types.items() if kind.is_tensor_like]
        for others in OTHERS.get(op.base, [{}]):
            given = {each: value for each, value in others.items() if each not in tensors}
            if name == "div.Tensor_mode":
                continue
            yield f"{name} {given}", op, given, tensors


def called(op, values):
    positional = [
        values.get(each.name, each.default) for each in op.schema.arguments if not each.kwarg_only
    ]
    named = {each.name: values[each.name] for each in op.schema.arguments
             if each.kwarg_only and each.name in values}  # fmt: skip
    return functools.partial(op.functional, *positional, **named)


def as_answered(answer):
    return answer.cpu().double().numpy()


def test_all_operators_answer_as_the_host_does_compiled_as_one_module(monkeypatch):
    """One module, a namespace per kernel: a compilation each would take twenty times as long."""
    rng = random.Random(0)
    data = [
        lab.tensor([rng.choice([0.0, 0.5, 1.0, rng.gauss(0, 2)]) for _ in range(60)]).view(3, 20)
        for _ in range(3)
    ]
    wanted = {}
    monkeypatch.setattr(elementwise, "_kernel", lambda call: lambda *_: wanted.setdefault(call, 0))
    both = []
    for name, op, given, tensors in calls():
        operands = dict(zip(tensors, data, strict=False))
        if op.base == "where":
            operands[tensors[0]] = data[0] > 0.5
        on_device = {each: value.to("cuda") for each, value in operands.items()}
        expected = called(op, {**operands, **given})()
        both.append((name, expected, called(op, {**on_device, **given})))
        both[-1][-1]()
    texts = [elementwise_source.source(call).replace('extern "C" ', "") for call in wanted]
    names = {call: f"call_{i}::lab_{call.name}" for i, call in enumerate(wanted)}
    module = cuda.RawModule(
        code="\n".join(f"namespace call_{i} {{\n{text}}}" for i, text in enumerate(texts)),
        name_expressions=list(names.values()),
    )
    kernels = {call: module.get_function(name) for call, name in names.items()}
    monkeypatch.setattr(elementwise, "_kernel", kernels.__getitem__)
    assert len(kernels) > 80
    for name, expected, on_device in both:
        answer = on_device()
        assert (answer.dtype, answer.device) == (expected.dtype, CUDA), name
        np.testing.assert_allclose(
            as_answered(answer), as_answered(expected), rtol=2e-5, atol=2e-6, err_msg=name
        )


WHOLE = {
    "relu": {}, "clamp": {"min": -1, "max": 2}, "sign": {}, "maximum": None, "minimum": None,
    "logical_and": None, "logical_not": {}, "addcmul": {"value": 3}, "square": {},
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_too(name):
    x = lab.tensor([-3, -1, 0, 1, 2, 100])
    if name == "addcmul":
        same(x.cuda().addcmul(x.cuda(), x.cuda(), value=3), x.addcmul(x, x, value=3))
        return
    more = (x.flip(0),) if WHOLE[name] is None else ()
    expected = getattr(x, name)(*more, **(WHOLE[name] or {}))
    same(getattr(x.cuda(), name)(*[each.cuda() for each in more], **(WHOLE[name] or {})), expected)


def test_halves_are_computed_in_float_and_rounded_once():
    x = lab.tensor([0.1, -2.5, 3.0, 700.0]).half()
    for name in ("sigmoid", "silu"):
        function = getattr(lab.nn.functional, name)
        on_device = as_answered(function(x.cuda()))
        np.testing.assert_allclose(on_device, as_answered(function(x)), rtol=1e-3)


def test_whole_powers():
    x, y = lab.tensor([2, -1, 1, 0, 3, -2]), lab.tensor([10, -3, -1, 0, -2, 5])
    same(x.cuda().pow(y.cuda()), x.pow(y))
    same(x.cuda() ** 3, x**3)


def test_arguments_without_an_expression_go_over_the_host_in_words():
    x = lab.tensor([1.0, 2.5], device="cuda")
    with pytest.warns(fallback.FallbackWarning, match=r"float32 with rounding_mode=floor"):
        assert lab.div(x, 2, rounding_mode="floor").tolist() == [0.0, 1.0]


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    launching.kernels().clear()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    x = lab.ones(2, 2).to("cuda").t()
    with pytest.raises(CompilerMissing, match=r"sudo apt install g\+\+"):
        x + x[0]


def test_the_host_alone_never_imports_the_device():
    program = "import sys, labkit as lab; lab.ones(3) + 1; sys.exit('labkit.cuda' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
