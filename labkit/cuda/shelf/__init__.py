"""The kernel shelf: every rung of `kernels/`, with data to run it on and what must come out."""

from labkit.cuda.shelf import (
    batch_norm,
    conv2d,
    conv2d_gradients,
    conv_bn_relu,
    depthwise,
    elementwise,
    hgemm,
    layer_norm,
    pooling,
    random,
    reduction,
    sgemm,
    softmax,
    squeeze_excite,
    strided_copy,
    transpose,
    unscale,
)
from labkit.cuda.shelf.rung import Problem, Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "elementwise": elementwise.RUNGS,
    "transpose": transpose.RUNGS,
    "reduction": reduction.RUNGS,
    "sgemm": sgemm.RUNGS,
    "hgemm": hgemm.RUNGS,
    "strided_copy": strided_copy.RUNGS,
    "softmax": softmax.RUNGS,
    "softmax_backward": softmax.BACKWARD,
    "layer_norm": layer_norm.RUNGS,
    "layer_norm_backward": layer_norm.BACKWARD,
    "batch_norm": batch_norm.RUNGS,
    "batch_norm_backward": batch_norm.BACKWARD,
    "batch_norm_inference": batch_norm.INFERENCE,
    "unscale": unscale.RUNGS,
    "random": random.RUNGS,
    "dropout": random.DROPOUT,
    "max_pool2d": pooling.MAX,
    "max_pool2d_backward": pooling.MAX_BACKWARD,
    "avg_pool2d": pooling.AVG,
    "avg_pool2d_backward": pooling.AVG_BACKWARD,
    "squeeze_excite": squeeze_excite.RUNGS,
    "squeeze_excite_backward": squeeze_excite.BACKWARD,
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

__all__ = ["LADDERS", "Problem", "Rung", "rung"]


def rung(name: str) -> Rung:
    """The rung of that kernel name, such as `transpose_3_padded`.

    Raises   KeyError   there is none
    """
    for rungs in LADDERS.values():
        for one in rungs:
            if one.name == name:
                return one
    raise KeyError(
        f"no rung {name!r}; there are {[one.name for r in LADDERS.values() for one in r]}"
    )
