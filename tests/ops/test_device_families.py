"""Kernels for the CUDA key: the host's answers, on the device, without a detour."""

import itertools
import random
import warnings

import numpy as np
import pytest

import labkit as lab
from labkit import cuda
from labkit.core.device import Device
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.ops import fallback
from labkit.ops.aten import aten
from labkit.ops.cuda.launching import kernels
from tests.seeds import seeds

CUDA = Device("cuda", 0)


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=64 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()


@pytest.fixture(autouse=True)
def nothing_falls_back():
    fallback.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.FallbackWarning)
        yield
    fallback.reset()


def moved(value):
    """A tensor on the device, its elements as far apart as they were."""
    if not isinstance(value, lab.Tensor):
        return value
    return lab.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda").copy_(
        value
    )


def check(operator, *args, atol=1e-5, rtol=1e-4, **kwargs):
    """The operator answers alike on both sides; what it wrote into its arguments too."""
    on_device = [moved(each) for each in args]
    expected = operator(*args, **kwargs)
    answer = operator(*on_device, **kwargs)
    if not isinstance(expected, tuple):
        expected, answer = (expected,), (answer,)
    for host, device in zip(expected, answer, strict=True):
        same(host, device, atol, rtol)
    for host, device in zip(args, on_device, strict=True):
        if isinstance(host, lab.Tensor):
            same(host, device, atol)
            assert device._version == host._version + 1  # the copy to the device counts
    assert fallback.counts() == {}


def same(host, device, atol=1e-5, rtol=1e-4):
    if host is None:
        assert device is None
        return
    assert device.device == CUDA
    assert (device.shape, device.dtype) == (host.shape, host.dtype)
    assert device.stride() == host.stride()
    a, b = (each.detach().cpu().double().numpy() for each in (device, host))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def randn(*shape):
    return lab.randn(shape)


def in_a_layout(x, rng):
    """The same numbers, laid out in some other order, or with gaps."""
    order = rng.sample(range(x.dim()), x.dim())
    back = [order.index(d) for d in range(x.dim())]
    x = x.permute(order).contiguous().permute(back)
    if x.dim() and rng.random() < 0.3:
        x = lab.stack([x, x], -1)[..., 0]
    return x


@pytest.mark.parametrize("seed", seeds(*range(4)))
def test_sums_and_means_over_any_dimensions(seed):
    rng = random.Random(seed)
    for _ in range(8):
        rank = rng.randrange(5)
        shape = [rng.choice([1, 2, 3, 5, 70]) if rank < 3 else rng.choice([1, 2, 9])] * bool(rank)
        shape += [rng.choice([1, 2, 3, 7]) for _ in range(rank - 1)]
        x = in_a_layout(randn(*shape), rng)
        dims = rng.sample(range(-rank, 0), rng.randrange(rank + 1)) if rank else []
        dims = list({dim % rank: dim for dim in dims}.values())
        keepdim = rng.random() < 0.5
        check(aten.sum.dim_IntList, x, dims, keepdim)
        check(aten.mean.dim, x, dims, keepdim)
        check(aten.amax.default, x, dims, keepdim)
        check(aten.amin.default, x, dims, keepdim)
    check(aten.sum.default, randn(3, 100))
    check(aten.mean.default, randn(200))
    check(aten.max.default, randn(200))


def test_sums_of_other_types():
    whole = lab.arange(100).view(4, 25)
    check(aten.sum.default, whole)
    check(aten.sum.dim_IntList, whole > 30, [1])
    check(aten.sum.dim_IntList, whole.to(lab.int32), [0])
    check(aten.sum.default, whole, dtype=lab.float32)
    check(aten.mean.dim, whole.double(), [1])
    check(aten.sum.dim_IntList, whole.half() / 100, [1], atol=1e-2)
    check(aten.sum.default, lab.zeros(0, 3))
    check(aten.sum.dim_IntList, lab.zeros(0, 3), [0])
    check(aten.mean.default, lab.zeros(0))
    check(aten.amax.default, lab.tensor([[1.0, float("nan"), 3.0], [4.0, 5.0, -6.0]]), [1])


def test_truth_norms_and_triangles():
    rng = random.Random(5)
    for shape in [(3, 4), (2, 5, 3), (1, 90), (0, 2), (2, 0)]:
        x = in_a_layout(randn(*shape).round(), rng)
        for each in (x, x > 0, x.to(lab.int64), (x > 0).to(lab.uint8)):
            check(aten.all.default, each)
            check(aten.any.default, each)
            check(aten.all.dim, each, 1, True)
            check(aten.any.dim, each, 0)
            check(aten.tril.default, each)
            check(aten.triu.default, each, rng.choice([-1, 1, 2]))
        check(aten.linalg_vector_norm.default, x, 2, [-1], False)
        check(aten.linalg_vector_norm.default, x)
    check(aten.dot.default, randn(90), randn(90))
    check(aten.dot.default, lab.arange(5), lab.arange(5))
    ends = lab.tensor([1.0, float("inf"), -float("inf"), float("nan")])
    check(aten.isneginf.default, ends)
    check(aten.isposinf.default, ends)


def test_products_of_matrices():
    rng = random.Random(1)
    for m, n, k in [(1, 1, 1), (5, 3, 7), (65, 66, 33), (3, 70, 0), (0, 2, 3)]:
        a, b = (in_a_layout(randn(*shape), rng) for shape in ((m, k), (k, n)))
        check(aten.mm.default, a, b)
        check(aten.addmm.default, randn(n), a, b)
        check(aten.addmm.default, randn(m, 1), a, b, beta=0.5, alpha=-2)
        check(aten.addmm.default, lab.full((m, n), float("nan")), a, b, beta=0)
        check(aten.bmm.default, randn(2, m, k), randn(2, k, n))
        check(aten.baddbmm.default, randn(n), randn(2, m, k), randn(2, k, n), alpha=3)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 2x3\)"):
        aten.mm.default(lab.zeros(2, 3, device="cuda"), lab.zeros(2, 3, device="cuda"))


def test_softmax_and_its_gradients():
    rng = random.Random(2)
    for shape in [(5, 7), (3, 33, 2), (2, 300), (4,), (), (0, 3)]:
        for dim in range(-max(1, len(shape)), max(1, len(shape))):
            x, dy = (in_a_layout(randn(*shape), rng) for _ in range(2))
            for name in ("_softmax", "_log_softmax"):
                forward = getattr(aten, name).default
                backward = getattr(aten, f"{name}_backward_data").default
                check(forward, x, dim, False)
                check(backward, dy, forward(x, dim, False), dim, lab.float32)


@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(affine):
    rng = random.Random(3)
    for shape, last in [((4, 33), 1), ((2, 3, 5), 2), ((2, 3, 130), 1), ((7,), 1)]:
        x, dy = (in_a_layout(randn(*shape), rng) for _ in range(2))
        inner = shape[len(shape) - last :]
        weight, bias = (randn(*inner), randn(*inner)) if affine else (None, None)
        check(aten.native_layer_norm.default, x, inner, weight, bias, 1e-5)
        _, mean, rstd = aten.native_layer_norm.default(x, inner, weight, bias, 1e-5)
        for mask in [(True, True, True), (False, True, False), (True, False, False)]:
            check(aten.native_layer_norm_backward.default, dy, x, inner, mean, rstd, weight, bias,
                  mask, atol=1e-4)  # fmt: skip


ONE_STEP = {lab.float32: 1e-4, lab.float16: 2**-10, lab.bfloat16: 2**-7}
"""How far sums lie apart that differ in a float32's last bits before they are rounded to the type:
one step of the type, relatively; for float32, what its sums may differ by.
"""


in_each_type = pytest.mark.parametrize("dtype", ONE_STEP, ids=str)


@in_each_type
@pytest.mark.parametrize("train", [True, False])
def test_batch_norm(train, dtype):
    rng, rtol = random.Random(4), ONE_STEP[dtype]
    for shape in [(4, 3), (3, 2, 5, 7), (2, 4, 9)]:
        x, dy = (in_a_layout(randn(*shape).to(dtype), rng) for _ in range(2))
        channels = shape[1]
        weight, bias, mean = (randn(channels) for _ in range(3))
        var = lab.rand(channels) + 0.5
        for given in ((weight, bias, mean, var), (None, None, mean, var)):
            check(aten.native_batch_norm.default, x, *given, train, 0.1, 1e-5, rtol=rtol)
            _, saved, inverse = aten.native_batch_norm.default(x, *given, train, 0.1, 1e-5)
            check(aten.native_batch_norm_backward.default, dy, x, given[0], mean, var, saved,
                  inverse, train, 1e-5, (True, True, True), atol=1e-4, rtol=rtol)  # fmt: skip
    if train and dtype is lab.float32:
        check(aten.native_batch_norm.default, x, None, None, None, None, True, 0.1, 1e-5)


POOLS = [((2, 2), (2, 2), (0, 0), (1, 1), False), ((3, 2), (1, 2), (1, 1), (1, 1), True),
         ((3, 3), (2, 2), (1, 1), (2, 1), True), ((2, 2), (), (0, 0), (1, 1), False)]  # fmt: skip


def pooled(dtype=lab.float32):
    """Numbers with many ties, in three layouts."""
    x = (randn(2, 3, 9, 10) * 2).round().to(dtype)
    return x, x[0], x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


@in_each_type
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_max_pooling(pool, dtype):
    for layout in pooled(dtype):
        forward = aten.max_pool2d_with_indices.default
        check(forward, layout, *pool)
        y, where = forward(layout, *pool)
        check(aten.max_pool2d_with_indices_backward.default, randn(*y.shape).to(dtype), layout,
              *pool, where, rtol=ONE_STEP[dtype])  # fmt: skip


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_average_pooling(pool):
    size, stride, padding, _, ceil_mode = pool
    for layout in pooled():
        for include, divisor in itertools.product([True, False], [None, 7]):
            options = (size, stride, padding, ceil_mode, include, divisor)
            check(aten.avg_pool2d.default, layout, *options)
            y = aten.avg_pool2d.default(layout, *options)
            check(aten.avg_pool2d_backward.default, randn(*y.shape), layout, *options)


CONVOLUTIONS = [
    ((2, 3, 9, 8), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 6, 11, 9), (9, 2, 3, 2), (2, 3), (2, 0), (1, 2), 3),
    ((3, 4, 7, 7), (4, 1, 5, 5), (1, 1), (2, 2), (1, 1), 4),
    ((2, 3, 17), (4, 3, 5), (2,), (1,), (1,), 1),
    ((2, 3, 19, 10), (6, 1, 3, 3), (2, 1), (1, 1), (1, 1), 3),
    ((2, 3, 17), (3, 1, 5), (1,), (2,), (1,), 3),
]


@in_each_type
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(case, dtype):
    x_shape, w_shape, *walk, groups = case
    rest, rtol = (*walk, False, (0,), groups), ONE_STEP[dtype]
    layouts = [randn(*x_shape).to(dtype)]
    if len(x_shape) == 4:
        layouts.append(layouts[0].permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))
    for x in layouts:
        w, bias = randn(*w_shape).to(dtype), randn(w_shape[0]).to(dtype)
        check(aten.convolution.default, x, w, bias, *rest, atol=1e-4, rtol=rtol)
        check(aten.convolution.default, x, w, None, *rest, atol=1e-4, rtol=rtol)
        dy = randn(*aten.convolution.default(x, w, None, *rest).shape).to(dtype)
        for mask in [(True, True, True), (False, True, False)]:
            check(aten.convolution_backward.default, dy, x, w, [w_shape[0]], *rest, mask,
                  atol=2e-4, rtol=rtol)  # fmt: skip


@pytest.mark.parametrize(("groups", "folder"), [(4, "depthwise_conv2d"), (2, "conv2d")])
def test_a_filter_per_channel_has_kernels_of_its_own(groups, folder):
    driver = EmulatorDriver(capacity=4 << 20)
    with cuda.use(driver):
        x, w = randn(1, 4, 6, 6).cuda(), randn(4, 4 // groups, 3, 3).cuda()
        rest = ((1, 1), (1, 1), (1, 1), False, (0, 0), groups)
        y = aten.convolution.default(x, w, None, *rest)
        aten.convolution_backward.default(y, x, w, None, *rest, (True, True, False))
        used = {op for op, *_ in kernels() if op.endswith(("conv2d", "gradient"))}
    driver.worker.stop()
    assert used == {folder, f"{folder}_input_gradient", f"{folder}_weight_gradient"}


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses_of_classes(reduction):
    for shape in [(6, 5), (5,), (2, 4, 3, 2)]:
        x = randn(*shape)
        classes = shape[0 if len(shape) == 1 else 1]
        target = lab.randint(0, classes, [size for i, size in enumerate(shape) if i != 1][
            len(shape) == 1:])  # fmt: skip
        name = "nll_loss2d" if len(shape) == 4 else "nll_loss"
        forward = getattr(aten, f"{name}_forward").default
        backward = getattr(aten, f"{name}_backward").default
        for weight, ignored in [(None, -100), (lab.rand(classes) + 0.1, 2)]:
            check(forward, x, target, weight, reduction, ignored)
            loss, total = forward(x, target, weight, reduction, ignored)
            check(backward, randn(*loss.shape), x, target, weight, reduction, ignored, total)


def test_embeddings():
    table, where = randn(7, 5), lab.tensor([[0, 6, 3], [3, 3, 1]])
    check(aten.embedding.default, table, where)
    for padding in (-1, 3):
        check(aten.embedding_dense_backward.default, randn(2, 3, 5), where, 7, padding, False)


def test_copies_that_a_kernel_needs_live_until_it_is_launched():
    x, gaps = randn(4, 3, 5), [lab.rand(3, 4)[:, 1] + 0.5 for _ in range(4)]
    gaps = [lab.stack([each, each], 1)[:, 0] for each in gaps]
    check(aten.native_batch_norm.default, x, *gaps[:2], None, None, True, 0.1, 1e-5)
    check(aten.native_batch_norm.default, x, *gaps, False, 0.1, 1e-5)
    check(aten.convolution.default, x, randn(3, 3, 2), gaps[0], (1,), (0,), (1,), False, (0,), 1)
    target = lab.tensor([0, 2, 1, 1])
    check(aten.nll_loss_forward.default, randn(4, 3), target, gaps[0], 1, -100)


def test_joining_and_masks():
    a, b = randn(2, 3, 4), randn(2, 1, 4)
    last = [x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) for x in randn(2, 1, 2, 3, 4)]
    for tensors, dim in [([a, b], 1), ([a, a.double()], -1), ([last[0], last[1]], 1)]:
        on_device = lab.cat([moved(each) for each in tensors], dim)
        same(lab.cat(tensors, dim), on_device)
    same(lab.stack([a, a + 1], 1), lab.stack([moved(a), moved(a) + 1], 1))
    check(lambda x, mask: x.masked_fill_(mask, -1), a.transpose(0, 2), a.transpose(0, 2) > 0)
    check(lambda x, mask: x.masked_fill(mask, 7), randn(2, 3, 4), b > 0)


def test_a_failure_that_a_copy_meets_leaves_no_copy_behind(device):
    """Queued, it would write to the host's memory when that is long somebody else's."""
    found = aten.embedding.default(lab.zeros((3, 2), device="cuda"), lab.tensor([7], device="cuda"))
    with pytest.raises(CudaError, match="lab_embedding"):
        found.cpu()
    assert device.queue.pending == 0


def test_a_class_there_is_none_of_ends_the_kernel():
    driver = EmulatorDriver(capacity=4 << 20)
    with cuda.use(driver):
        x = lab.zeros(2, 3, device="cuda")
        target = lab.tensor([0, 3], device="cuda")
        with pytest.raises(CudaError):
            aten.nll_loss_forward.default(x, target, None, 1, -100)[0].item()
    driver.worker.stop()


REFUSED = [
    ("mm", lambda x: x.double() @ x.double(), "halves, all sides alike, and got float64"),
    ("convolution", lambda x: lab.conv2d(*[x.double().view(4, 2, 2, 1)] * 2), "got float64"),
    ("_softmax", lambda x: x.half().softmax(0), "float32, and got float16"),
    ("native_batch_norm", lambda x: lab.batch_norm(x.half(), None, None, None, None, True, 0.1,
                                                   1e-5, False), "statistics in float32, not"),
    ("mean", lambda x: (x + 1j).mean(), "complex64"),
    ("max_pool2d_with_indices", lambda x: lab.max_pool2d(x.view(1, 4, 4).double(), 2), "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "why"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_a_kernel_cannot_serve_goes_over_the_host_and_says_why(name, call, why):
    x = randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = call(x)
    with pytest.warns(fallback.FallbackWarning, match=why):
        answer = call(x.to("cuda"))
    assert name in fallback.counts()
    np.testing.assert_allclose(answer.cpu().numpy(), expected.numpy(), rtol=1e-3)
