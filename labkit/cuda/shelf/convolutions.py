"""The ladders of convolutions."""

from labkit.cuda.shelf import conv2d, conv2d_gradients, conv_bn_relu, depthwise
from labkit.cuda.shelf.rung import Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "conv2d": conv2d.RUNGS,
    "conv2d_input_gradient": conv2d_gradients.INPUT,
    "conv2d_weight_gradient": conv2d_gradients.WEIGHT,
    "conv2d_bias_gradient": conv2d_gradients.BIAS,
    "depthwise_conv2d": depthwise.RUNGS,
    "depthwise_conv2d_input_gradient": depthwise.INPUT,
    "depthwise_conv2d_weight_gradient": depthwise.WEIGHT,
    "conv_bn_relu": conv_bn_relu.RUNGS,
}
"""Op -> its rungs, in order."""
