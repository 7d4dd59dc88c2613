"""Layers as functions: PyTorch's `torch.nn.functional`, over labkit's operators.

Source   torch/nn/functional.py
"""

from labkit.core.missing import refuse_others
from labkit.nn.functional.activation import (
    dropout,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
    threshold,
)
from labkit.nn.functional.layer import (
    batch_norm,
    conv2d,
    layer_norm,
    linear,
)
from labkit.nn.functional.loss import (
    cross_entropy,
    mse_loss,
    nll_loss,
)
from labkit.nn.functional.pooling import (
    adaptive_avg_pool2d,
    avg_pool2d,
    max_pool2d,
)

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "conv2d",
    "cross_entropy",
    "dropout",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
    "threshold",
]

__getattr__ = refuse_others(__name__)
