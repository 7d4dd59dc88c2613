"""The backward of a squeeze-excite gate, by `kernels/squeeze_excite_backward`.

No operator of PyTorch's is this: `labkit.vision` calls it.
"""

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_floats, read, shelf, written
from labkit.ops.tensors import copy

LADDER, RUNG, THREADS = "squeeze_excite_backward", "1_three_launches", 128


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
