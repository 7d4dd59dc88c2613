"""What looks elements up by numbers: the loss of a class, rows of an embedding.

A number out of range ends the kernel, and the device says so when it is waited for, as a
device-side assertion does.

Source   aten/src/ATen/native/cuda/Loss.cu, Embedding.cu
"""

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import (
    NoKernel,
    check_device,
    check_floats,
    empty,
    launch_each,
    read,
    written,
)
from labkit.ops.cuda.layouts import packed
from labkit.ops.cuda.reduction import fold
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.layers import nll_loss as host
from labkit.ops.layers.loss import MEAN, NONE
from labkit.ops.pointwise.pointwise import OPERATORS
from labkit.ops.tensors import copy

Optional = TensorImpl | None
Pair = tuple[TensorImpl, TensorImpl]

_TEXT = """\
// x [N, C, inner] f32 and one target per row of C; rows = N * inner. A target to ignore weighs 0.
__device__ float weight_of(long long target, const float* weight, long long C, long long ignored) {
    if (target == ignored) return 0.0f;
    if (target < 0 || target >= C) __trap();
    return weight ? weight[target] : 1.0f;
}

__device__ long long place_of(long long row, long long target, long long C, long long inner) {
    return (row / inner * C + target) * inner + row % inner;
}

extern "C" __global__ void lab_nll(const float* x, const long long* target, const float* weight,
                                   float* losses, float* weights, long long rows, long long C,
                                   long long inner, long long ignored) {
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float w = weight_of(target[row], weight, C, ignored);
    weights[row] = w;
    losses[row] = w == 0.0f ? 0.0f : -x[place_of(row, target[row], C, inner)] * w;
}

// dx holds zeros. dloss: of each row, or with `reduced` one, over `total` where that is given.
extern "C" __global__ void lab_nll_backward(const float* dloss, const long long* target,
                                            const float* weight, const float* total, float* dx,
                                            long long rows, long long C, long long inner,
                                            long long ignored, bool reduced) {
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float w = weight_of(target[row], weight, C, ignored);
    const float g = reduced ? dloss[0] : dloss[row];
    if (w != 0.0f) dx[place_of(row, target[row], C, inner)] = -w * (total ? g / total[0] : g);
}

// table [K, width] -> out [n, width]
extern "C" __global__ void lab_embedding(const float* table, const long long* index, float* out,
                                         long long n, long long K, long long width) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n * width) return;
    const long long row = index[i / width];
    if (row < 0 || row >= K) __trap();
    out[i] = table[row * width + i % width];
}

// A thread per column adds its gradients in order: no atomics, the same sum every time.
extern "C" __global__ void lab_embedding_backward(const float* dy, const long long* index,
                                                  float* dtable, long long n, long long K,
                                                  long long width, long long padding_row) {
    const long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (long long k = 0; k < K; ++k) dtable[k * width + column] = 0.0f;
    for (long long i = 0; i < n; ++i) {
        const long long row = index[i];
        if (row < 0 || row >= K) __trap();
        if (row != padding_row) dtable[row * width + column] += dy[i * width + column];
    }
}
"""


def _rows(self: TensorImpl, target: TensorImpl, weight: Optional) -> tuple[int, int, int]:
    """How many rows there are, how many classes, and how far apart the scores of a row lie.

    Raises   NoKernel       not float32, or targets that are not int64, or no element at all
             RuntimeError   sizes that do not fit
    """
    host.check(self, target, weight, self.dim() == 4)
    check_floats(self, weight)
    check_device(self, target)
    if target.dtype is not dtypes.int64:
        raise NoKernel(f"its kernel takes int64 targets, and got {target.dtype.name}")
    if not self.numel():
        raise NoKernel("its kernel takes at least one element")
    classes = self.sizes[0 if self.dim() == 1 else 1]
    inner = self.sizes[2] * self.sizes[3] if self.dim() == 4 else 1
    return self.numel() // classes, classes, inner


def nll_loss_forward(
    self: TensorImpl, target: TensorImpl, weight: Optional, reduction: int, ignore_index: int
) -> Pair:
    """The losses of log-probabilities against their classes; and the sum of the weights used."""
    rows, classes, inner = _rows(self, target, weight)
    x, wanted = copy.contiguous(self), copy.contiguous(target)
    losses, weights = empty(target.sizes, self), empty(target.sizes, self)
    into = written(losses), written(weights)
    launch_each(
        _TEXT, "lab_nll", rows, read(x), read(wanted), read(packed(weight)), *into,
        rows, classes, inner, ignore_index,
    )  # fmt: skip
    if reduction == NONE and self.dim() > 1:
        zero = empty((), self)
        copy.fill_(zero, 0)
        return losses, zero
    every = tuple(range(losses.dim()))
    loss, total = fold("sum", losses, every), fold("sum", weights, every)
    return (OPERATORS["div.Tensor"].functional(loss, total) if reduction == MEAN else loss), total


def nll_loss_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional,
    reduction: int,
    ignore_index: int,
    total_weight: TensorImpl,
) -> TensorImpl:
    """The gradient of `self`."""
    rows, classes, inner = _rows(self, target, weight)
    check_floats(self, grad_output, total_weight)
    dloss, wanted = copy.contiguous(grad_output), copy.contiguous(target)
    dx = empty(self.sizes, self)
    copy.fill_(dx, 0)
    total = read(total_weight) if reduction == MEAN else None
    into = written(dx)
    launch_each(
        _TEXT, "lab_nll_backward", rows, read(dloss), read(wanted), read(packed(weight)), total,
        into, rows, classes, inner, ignore_index, reduction != NONE or self.dim() == 1,
    )  # fmt: skip
    dx.version_counter.version = 0
    return dx


for _name in ("nll_loss", "nll_loss2d"):
    device_kernel(f"{_name}_forward")(nll_loss_forward)
    device_kernel(f"{_name}_backward")(nll_loss_backward)


def _lookups(table: TensorImpl, indices: TensorImpl) -> None:
    check_floats(table)
    check_device(table, indices)
    if indices.dtype is not dtypes.int64:
        raise NoKernel(f"its kernel takes int64 indices, and got {indices.dtype.name}")
    if table.dim() < 2 and indices.dim():
        raise NoKernel(f"its kernel takes rows, and got {table.dim()} dimensions")


@device_kernel("embedding")
def embedding(
    weight: TensorImpl,
    indices: TensorImpl,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorImpl:
    """[*, D]: the row of `weight` [K, D] that each element of `indices` [*] names."""
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.sizes)}")
    _lookups(weight, indices)
    table, rows = copy.contiguous(weight), copy.contiguous(indices)
    height, width = weight.sizes
    out = empty((*indices.sizes, width), weight)
    if out.numel():
        into, shape = written(out), (indices.numel(), height, width)
        launch_each(_TEXT, "lab_embedding", out.numel(), read(table), read(rows), into, *shape)
    return out


@device_kernel("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: TensorImpl,
    indices: TensorImpl,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> TensorImpl:
    """[K, D]: each gradient added to the row that was looked up, but for the padding row."""
    _lookups(grad_output, indices)
    if scale_grad_by_freq:
        raise NoKernel("its kernel does not count how often a row was looked up")
    dy, rows = copy.contiguous(grad_output), copy.contiguous(indices)
    width = grad_output.sizes[-1]
    table = empty((num_weights, width), grad_output)
    if table.numel():
        into = written(table)
        launch_each(
            _TEXT, "lab_embedding_backward", width, read(dy), read(rows), into, indices.numel(),
            num_weights, width, padding_idx,
        )  # fmt: skip
    return table
