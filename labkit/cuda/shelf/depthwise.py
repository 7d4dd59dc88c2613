"""Convolutions with a kernel per channel: groups equal to the channels of x; and their gradients.

The bias gradient is that of any convolution.
"""

from labkit.cuda.shelf import conv2d, conv2d_gradients
from labkit.cuda.shelf.conv_sizes import Conv, convolutions_of

SHAPES = (
    Conv((1, 1, 1, 1), (1, 1, 1, 1)),
    Conv((0, 3, 5, 5), (3, 1, 3, 3), groups=3),
    Conv((2, 3, 19, 11), (3, 1, 3, 3), padding=(1, 1), groups=3),
    Conv((2, 2, 13, 10), (6, 1, 5, 5), (1, 2), (2, 2), (1, 3), groups=2),  # three kernels each
    Conv((1, 4, 17, 9), (4, 1, 7, 7), padding=(3, 3), groups=4),
    Conv((2, 2, 12, 9), (2, 1, 3, 3), (2, 1), (1, 0), (2, 1), groups=2),
    Conv((1, 2, 9, 8), (4, 1, 2, 4), (3, 2), (1, 2), (1, 1), 2, (0, 1)),
    Conv((2, 3, 10, 33), (3, 1, 3, 3), padding=(1, 1), groups=3),
)
_PROBES = [
    Conv(x, (4, 1, 3, 3), groups=4) for x in ((1, 4, 10, 34), (1, 4, 16, 66), (3, 4, 10, 34))
]
RUNGS = convolutions_of("depthwise_conv2d", conv2d.make, _PROBES[0], SHAPES)
INPUT = convolutions_of(
    "depthwise_conv2d_input_gradient", conv2d_gradients.make_input, _PROBES[1], SHAPES
)
WEIGHT = convolutions_of(
    "depthwise_conv2d_weight_gradient", conv2d_gradients.make_weight, _PROBES[2], SHAPES
)
