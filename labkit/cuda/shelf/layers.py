"""The ladders of network layers, losses, optimizer steps and what surrounds them."""

from labkit.cuda.shelf import (
    batch_norm,
    convert,
    cross_entropy,
    histogram,
    layer_norm,
    optimizers,
    pooling,
    random,
    softmax,
    squeeze_excite,
    unscale,
)
from labkit.cuda.shelf.rung import Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "softmax": softmax.RUNGS,
    "softmax_backward": softmax.BACKWARD,
    "layer_norm": layer_norm.RUNGS,
    "layer_norm_backward": layer_norm.BACKWARD,
    "batch_norm": batch_norm.RUNGS,
    "batch_norm_backward": batch_norm.BACKWARD,
    "batch_norm_inference": batch_norm.INFERENCE,
    "cross_entropy": cross_entropy.RUNGS,
    "cross_entropy_backward": cross_entropy.BACKWARD,
    "soft_cross_entropy": cross_entropy.SOFT,
    "soft_cross_entropy_backward": cross_entropy.SOFT_BACKWARD,
    "sgd": optimizers.SGD,
    "adam": optimizers.ADAM,
    "histogram": histogram.RUNGS,
    "convert": convert.RUNGS,
    "unscale": unscale.RUNGS,
    "random": random.RUNGS,
    "dropout": random.DROPOUT,
    "max_pool2d": pooling.MAX,
    "max_pool2d_backward": pooling.MAX_BACKWARD,
    "avg_pool2d": pooling.AVG,
    "avg_pool2d_backward": pooling.AVG_BACKWARD,
    "squeeze_excite": squeeze_excite.RUNGS,
    "squeeze_excite_backward": squeeze_excite.BACKWARD,
}
