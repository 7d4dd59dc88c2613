"""Kernels that serve device tensors too, because all that they call runs on the device.

Source   aten/src/ATen/native/cuda/Dropout.cu, IndexKernel.cpp
Differs  the mask of a dropout is drawn as `bernoulli_` draws, where PyTorch's fused kernel draws
         four at a time
"""

from labkit.ops.indexing import masked
from labkit.ops.random import random_factories
from labkit.ops.registration import kernel

kernel("native_dropout", "CUDA")(random_factories.native_dropout)
kernel("native_dropout_backward", "CUDA")(random_factories.native_dropout_backward)
kernel("masked_fill.Scalar", "CUDA")(masked.masked_fill)
kernel("masked_fill.Tensor", "CUDA")(masked.masked_fill_tensor)
