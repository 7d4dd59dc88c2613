"""Layers, over `labkit.nn.functional`.

Source   torch/nn
"""

from labkit.core.missing import refuse_others
from labkit.nn import functional, init
from labkit.nn.containers import ModuleDict, ModuleList, Sequential
from labkit.nn.layers import BatchNorm1d, BatchNorm2d, Conv2d, LayerNorm, Linear
from labkit.nn.module import Module
from labkit.nn.parameter import Parameter
from labkit.nn.plain_layers import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Flatten,
    MaxPool2d,
    ReLU,
    Sigmoid,
    SiLU,
    Tanh,
)

__all__ = [
    "GELU",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "Flatten",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Tanh",
    "functional",
    "init",
]

__getattr__ = refuse_others(__name__)
