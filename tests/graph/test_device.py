"""On the emulator: fused and plain graphs agree; the fused one launches and moves less."""

import pytest
import torch
from torch import nn

import labkit as lab
from labkit import graph, vision
from labkit.graph.codegen import why_not_pointwise
from tests.graph.programs import poisoned


class Block(nn.Module):
    """A residual block with a sigmoid gate, and a linear layer behind it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.BatchNorm2d(8)
        self.shortcut, self.last = nn.Conv2d(4, 8, 3, stride=2), nn.Linear(9, 4)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = torch.sigmoid(self.norm2(self.conv2(y)[..., :3, :3])) * 2 + self.shortcut(x)
        return self.last(torch.relu(y).flatten(2))


def test_the_fused_block_launches_less_moves_less_and_agrees(emulator):
    x = torch.randn(1, 4, 7, 7)
    block = poisoned(Block(), 0)
    before = graph.capture(block, x)
    plain = graph.run_on_device(before, x, driver=emulator)
    rewritten = graph.run_on_device(graph.fuse(before), x, driver=emulator)
    with torch.no_grad():
        expected = block(x)
    for run in (plain, rewritten):
        torch.testing.assert_close(run.result, expected, rtol=1e-4, atol=1e-4)
        assert not any(report.findings for report in run.reports)
    assert (len(plain.launches), len(rewritten.launches)) == (11, 6)
    assert rewritten.bytes_moved < plain.bytes_moved
    nodes = {launch.node for launch in rewritten.launches}
    assert nodes == {"conv_bn_relu", "conv2d_1", "batch_norm_1", "conv2d_2", "linear",
                     "fused_sigmoid_mul_add_relu_1"}  # fmt: skip


def warmed(make):
    """A network whose norms have seen images, so that they do something in evaluation."""
    lab.manual_seed(3)
    network = make(1 / 16, 5)
    for _ in range(5):
        network(lab.randn(4, 3, 32, 32))
    return network.eval()


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [(vision.ResNet, 68, 31), (vision.EfficientNet, 238, 189)],
    ids=["resnet18", "efficientnet_b0"],
)
def test_a_whole_network_launches_less_moves_less_and_agrees(make, before, after, emulator):
    network, x = warmed(make), lab.randn(2, 3, 32, 32)
    expected = torch.from_dlpack(network(x).detach())
    captured, image = graph.capture(network, x), torch.from_dlpack(x)
    plain = graph.run_on_device(captured, image, driver=emulator)
    rewritten = graph.run_on_device(graph.fuse(captured), image, driver=emulator)
    assert expected.std() > 1e-3
    for run in (plain, rewritten):
        torch.testing.assert_close(run.result, expected, rtol=1e-4, atol=1e-6)
        assert not any(report.findings for report in run.reports)
    assert (len(plain.launches), len(rewritten.launches)) == (before, after)
    assert rewritten.bytes_moved < 0.9 * plain.bytes_moved
    assert rewritten.tensor_bytes < 0.9 * plain.tensor_bytes


def test_linear_norm_and_relu_are_one_launch(emulator):
    block = nn.Sequential(nn.Linear(37, 70), nn.BatchNorm1d(70), nn.ReLU())
    x = torch.randn(9, 37)
    before = graph.capture(poisoned(block, 1), x)
    run = graph.run_on_device(graph.fuse(before), x, driver=emulator)
    assert [launch.kernel for launch in run.launches] == ["conv_bn_relu_3_epilogue"]
    assert run.launches[0].tensor_bytes == 4 * (9 * 37 + 37 * 70 + 5 * 70 + 9 * 70)
    with torch.no_grad():
        torch.testing.assert_close(run.result, block(x), rtol=1e-4, atol=1e-4)


ROWS, ROW, FILTERS = torch.randn(3, 10), torch.randn(3), torch.randn(6, 1, 3, 3)
ONE_LAUNCH = {
    "linear": lambda x: nn.functional.linear(x, ROWS, ROW),
    "a filter per channel": lambda x: torch.conv2d(x, FILTERS, groups=6),
    "max_pool2d": lambda x: nn.functional.max_pool2d(x, 3, 2, 1),
    "max_pool2d of rows": lambda x: nn.functional.max_pool2d(x, (1, 3), ceil_mode=True),
    "mean of planes": lambda x: x.mean((2, 3)),
    "mean of channels": lambda x: x.mean(-3, keepdim=True),
    "mean of all": lambda x: x.mean((0, 1, 2, 3)),
    "sum": lambda x: x.sum((0, 2)),
    "adaptive_avg_pool2d": lambda x: nn.functional.adaptive_avg_pool2d(x, 1),
    "a number less x": lambda x: 2 - x,
    "y less x": lambda x: torch.rsub(x, x[:1, :, :1], alpha=3),
}


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_each_of_these_is_one_launch(name, last, emulator):
    x = torch.randn(2, 6, 9, 10)
    if last and name not in ("linear", "a filter per channel", "max_pool2d", "max_pool2d of rows"):
        x = x.to(memory_format=torch.channels_last)
    program = lambda x: ONE_LAUNCH[name](x)  # noqa: E731  (a builtin has no signature to capture)
    run = graph.run_on_device(graph.capture(program, x), x, driver=emulator)
    assert len(run.launches) == 1
    torch.testing.assert_close(run.result, program(x))
    assert run.result.stride() == program(x).stride()


def test_a_number_less_a_value_joins_a_chain(emulator):
    x, y = torch.randn(2, 8, 64), torch.randn(64)

    def chain(x, y):
        return torch.rsub((1 - x.sigmoid()) * x, y, alpha=2)

    rewrite = graph.fuse_pointwise(graph.capture(chain, x, y))
    assert rewrite.done == ["sigmoid, rsub, mul, rsub_1 are fused_sigmoid_rsub_mul_rsub_1"]
    run = graph.run_on_device(rewrite.graph, x, y, driver=emulator)
    torch.testing.assert_close(run.result, chain(x, y))


def test_a_chain_moves_each_input_once_and_its_result_once(emulator):
    x, y = torch.randn(2, 8, 64), torch.randn(2, 8, 64)

    def chain(x, y):
        return ((x * y).sigmoid() + x * 2 - y).clamp(-0.5, 0.5).abs()

    before = graph.capture(chain, x, y)
    (node,) = graph.fuse_pointwise(before).graph.graph.find_nodes(op="call_module")
    assert len(node.args) == 2  # each of them is read twice
    plain = graph.run_on_device(before, x, y, driver=emulator)
    one = graph.run_on_device(graph.fuse_pointwise(before).graph, x, y, driver=emulator)
    size = x.numel() * 4
    assert [len(plain.launches), plain.bytes_moved] == [7, 17 * size]
    assert [len(one.launches), one.bytes_moved] == [1, 3 * size]
    torch.testing.assert_close(one.result, chain(x, y))


LAYOUTS = {
    "a row": ((3, 4, 5), (5,)),
    "a column": ((3, 4, 5), (4, 1)),
    "both at once": ((3, 1, 5), (4, 1)),
    "a number": ((3, 4), ()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_broadcast_inputs_are_read_where_they_lie(layout, emulator):
    first, second = (torch.randn(shape) for shape in LAYOUTS[layout])

    def program(x, y):
        return (x + y) * y.t() if layout == "none" else (x + y) * 2 - y

    before = graph.capture(program, first, second)
    run = graph.run_on_device(graph.fuse_pointwise(before).graph, first, second, driver=emulator)
    assert [launch.node for launch in run.launches] == ["fused_add_mul_sub"]
    torch.testing.assert_close(run.result, program(first, second))


def test_turned_and_channels_last_inputs_keep_their_strides(emulator):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = torch.randn(5, 4).t()

    def program(x, y):
        return (x * y).tanh() - y

    before = graph.capture(program, x, y)
    run = graph.run_on_device(graph.fuse_pointwise(before).graph, x, y, driver=emulator)
    torch.testing.assert_close(run.result, program(x, y))
    assert run.result.stride() == program(x, y).stride()


def test_an_operator_without_a_kernel_is_named(emulator):
    x = torch.randn(4, 4)
    with pytest.raises(NotImplementedError, match=r"aten\.cumsum"):
        graph.run_on_device(graph.capture(lambda x: x.cumsum(0), x), x, driver=emulator)
    norm = nn.BatchNorm2d(1)
    x = torch.randn(2, 1, 2, 2)
    with pytest.raises(NotImplementedError):
        graph.run_on_device(graph.capture(norm, x), x, driver=emulator)
    with pytest.raises(NotImplementedError, match=r"\[2, 2\] has no kernel; to \[1, 1\] it has"):
        pooled = graph.capture(lambda x: nn.functional.adaptive_avg_pool2d(x, 2), x)
        graph.run_on_device(pooled, x, driver=emulator)
    with pytest.raises(NotImplementedError, match=r"as torch.float32 has no kernel here"):
        counted = graph.capture(lambda x: x.mean(0, dtype=torch.float32), x.long())
        graph.run_on_device(counted, x.long(), driver=emulator)


def test_what_a_composite_operator_computes_is_not_called_a_view(emulator):
    x = torch.randn(4, 4)
    with pytest.raises(NotImplementedError, match=r"aten\.kron\.default makes new memory"):
        graph.run_on_device(graph.capture(lambda x: torch.kron(x, x), x), x, driver=emulator)
    same = graph.capture(lambda x: nn.functional.dropout(x, training=False).reshape(16), x)
    assert graph.run_on_device(same, x, driver=emulator).launches == []


def test_the_source_says_what_it_does():
    before = graph.capture(lambda x, row: (x + 2 * row).relu(), torch.randn(3, 4), torch.randn(4))
    rewrite = graph.fuse_pointwise(before)
    assert rewrite.done == ["add, relu are fused_add_relu"]
    (kernel,) = rewrite.graph.children()
    assert kernel.source.splitlines()[6:] == [
        "// add, relu",
        'extern "C" __global__ void fused_add_relu(const float* x, const float* mul, '
        "float* out, long long n) {",
        "    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;",
        "    if (i >= n) return;",
        "    const float v_x = x[i];",
        "    const float v_mul = mul[i % 4];",
        "    const float v_add = v_x + v_mul;",
        "    const float v_relu = larger(v_add, 0);",
        "    out[i] = v_relu;",
        "}",
    ]


TYPES = [torch.float16, torch.bfloat16, torch.float64]
ULP = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float64: 2.0**-50}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_chain_of_another_type_is_rounded_as_if_each_operator_wrote_it(dtype, emulator):
    x, y = torch.randn(4, 64, dtype=dtype), torch.randn(64, dtype=dtype)

    def chain(x, y):
        return ((x * y + x) * 3 - y).relu().maximum(y) / 7

    before = graph.capture(chain, x, y)
    fused_run = graph.run_on_device(graph.fuse_pointwise(before).graph, x, y, driver=emulator)
    plain = graph.run_on_device(before, x, y, driver=emulator)
    assert torch.equal(fused_run.result, chain(x, y))
    assert torch.equal(plain.result, chain(x, y))
    assert [len(fused_run.launches), len(plain.launches)] == [1, 7]
    floats = graph.capture(chain, x.float(), y.float())
    wide = graph.run_on_device(graph.fuse_pointwise(floats).graph, x.float(), y.float())
    assert 4 * fused_run.bytes_moved == dtype.itemsize * wide.bytes_moved


FUNCTIONS = {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "sin": torch.sin,
    "silu": nn.functional.silu, "gelu": nn.functional.gelu, "softplus": nn.functional.softplus,
    "gelu by tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "leaky_relu": nn.functional.leaky_relu, "pow": lambda x: x.pow(3), "sqrt": lambda x: x.sqrt(),
    "clamp": lambda x: x.clamp(-0.3, 0.7), "lerp": lambda x: x.lerp(x * 2, 0.25),
    "remainder": lambda x: x.remainder(x * 3), "abs": lambda x: -x.abs(),
    "subtraction": lambda x: x - 0.1,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, *TYPES], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_right_to_the_last_bit_or_the_next(name, dtype, emulator):
    """PyTorch's in float64 says what is right: its vector loops for gelu in float32 are not."""
    x = (torch.randn(97, dtype=torch.float64) * 2).to(dtype)
    program = lambda x: FUNCTIONS[name](x)  # noqa: E731  (a builtin has no signature to capture)
    before = graph.capture(program, x)
    run = graph.run_on_device(before, x, driver=emulator)
    ulp = ULP.get(dtype, 2.0**-21)
    assert run.result.dtype is dtype
    right = program(x.double()).to(dtype)
    torch.testing.assert_close(run.result, right, rtol=ulp, atol=ulp, equal_nan=True)


def test_two_types_make_no_kernel():
    x, y = torch.randn(3), torch.randn(3).half()
    rewrite = graph.fuse_pointwise(graph.capture(lambda x, y: (x + y) * 2 + y, x, y))
    assert not rewrite.done
    (mixed,) = rewrite.graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    adds = rewrite.graph.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    assert why_not_pointwise(mixed) is None
    assert why_not_pointwise(adds[0]) == "y is torch.float16, and add is torch.float32"
