"""A squeeze-excite gate and its backward, by `kernels/squeeze_excite` and `_backward`.

No operator of PyTorch's is this: `labkit.vision` calls it.
"""

from typing import Any

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_floats, read, shelf, written
from labkit.ops.tensors import copy

FORWARD = "squeeze_excite", "3_three_launches"
LADDER, RUNG, THREADS = "squeeze_excite_backward", "1_three_launches", 128


def gate_forward(
    x: TensorImpl, reduce: tuple[Any, Any], expand: tuple[Any, Any], silu: bool
) -> tuple[TensorImpl, TensorImpl, TensorImpl]:
    """The weighted image, the mean of each channel, and what each channel is multiplied by.

    x       [N, C, H, W]
    reduce  weights [R, C] and bias [R], which may be None, of the first layer
    expand  weights [C, R] and bias [C], which may be None, of the second
    silu    between both; else a ReLU

    Raises   NoKernel   something is no float32 on the device, or there is no plane
    """
    check_floats(x, *reduce, *expand)
    if not x.numel():
        raise NoKernel("its kernel takes at least one plane")
    x = copy.contiguous(x)
    layers = [None if one is None else copy.contiguous(one) for one in (*reduce, *expand)]
    n, channels, hidden = x.sizes[0], x.sizes[1], reduce[0].sizes[0]
    planes, spatial = n * channels, x.sizes[2] * x.sizes[3]
    mean, gate = (tensor_impl.empty((n, channels), x.dtype, x.device) for _ in range(2))
    y = tensor_impl.empty(x.sizes, x.dtype, x.device)
    into = written(mean)
    shelf(*FORWARD)(planes, THREADS, (read(x), into, planes, spatial))
    into, gates = written(gate), shelf(*FORWARD, "gates")
    args = (read(mean), *map(read, layers), into, n, channels, hidden, silu)
    gates(*gates.geometry(grid=n, block=THREADS, R=hidden), args)
    into = written(y)
    shelf(*FORWARD, "scale")(planes, THREADS, (read(x), read(gate), into, planes, spatial))
    return y, mean, gate


def gate_backward(
    dy: TensorImpl,
    x: TensorImpl,
    gate: TensorImpl,
    slope: TensorImpl,
    reduce: TensorImpl,
    expand: TensorImpl,
) -> tuple[TensorImpl, TensorImpl, TensorImpl]:
    """The gradients of x, of what the second small layer made, and of what the first one made.

    dy, x   [N, C, H, W]
    gate    [N, C]
    slope   [N, R]: the activation's, at what the first layer made
    reduce  [R, C], expand [C, R]: the layers' weights

    Raises   NoKernel   something is no float32 on the device, or there is no plane
    """
    check_floats(dy, x, gate, slope, reduce, expand)
    if not x.numel():
        raise NoKernel("its kernel takes at least one plane")
    dy, x, gate, slope, reduce, expand = (
        copy.contiguous(one) for one in (dy, x, gate, slope, reduce, expand)
    )
    (n, channels, height, width), hidden = x.sizes, slope.sizes[1]
    planes, spatial = n * channels, height * width
    dx, de, dr, shift = (
        tensor_impl.empty(like.sizes, like.dtype, like.device) for like in (x, gate, slope, gate)
    )
    into = written(de)
    args = (read(dy), read(x), read(gate), into, planes, spatial)
    shelf(LADDER, RUNG)(planes, THREADS, args)
    dr_into, shift_into = written(dr), written(shift)
    small = (read(de), read(slope), read(reduce), read(expand), dr_into, shift_into)
    gates = shelf(LADDER, RUNG, "gates")
    gates(*gates.geometry(grid=n, block=THREADS, R=hidden), (*small, n, channels, spatial, hidden))
    into = written(dx)
    args = (read(dy), read(gate), read(shift), into, planes, spatial)
    shelf(LADDER, RUNG, "input")(planes, THREADS, args)
    return dx, de, dr
