"""Dropout of device tensors: the host's rule, in operators that run on the device.

Source   aten/src/ATen/native/cuda/Dropout.cu
Differs  the mask is drawn as `bernoulli_` draws, where PyTorch's fused kernel draws four at a time
"""

from labkit.ops import random_factories
from labkit.ops.registration import kernel

kernel("native_dropout", "CUDA")(random_factories.native_dropout)
kernel("native_dropout_backward", "CUDA")(random_factories.native_dropout_backward)
