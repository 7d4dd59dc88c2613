"""Autocast's rules for the device: which operators compute in halves, and which in float32.

An operator that stands in neither list runs in the type of its arguments.

Source   aten/src/ATen/autocast_mode.h  AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32
Differs  the lists are the parts of PyTorch's that networks here use
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from labkit.torch_device.twins import NAME

KEY = "AutocastPrivateUse1"
KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
LOWER = (
    "mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "mv", "addmv", "addbmm", "conv1d",
    "conv2d", "conv3d", "conv_transpose2d.input", "scaled_dot_product_attention",
)  # fmt: skip
IN_FLOAT32 = (
    "exp", "log", "pow.Tensor_Scalar", "softmax.int", "log_softmax.int", "layer_norm",
    "native_layer_norm", "group_norm", "nll_loss", "cross_entropy_loss", "mse_loss", "l1_loss",
    "binary_cross_entropy_with_logits", "sum", "sum.dim_IntList", "prod", "cumsum",
    "linalg_vector_norm", "softplus", "gelu",
)  # fmt: skip


def register(library: torch.library.Library) -> None:
    """Both lists hold inside `torch.autocast("lab")`."""
    for names, target in ((LOWER, _chosen), (IN_FLOAT32, lambda: torch.float32)):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _policy(op, target), KEY)


def _chosen() -> torch.dtype:
    return torch.get_autocast_dtype(NAME)


def _policy(op: Any, target: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def cast(value: Any) -> Any:
        halves_or_floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        if halves_or_floats and value.device.type == NAME and value.dtype != torch.float64:
            return value.to(target())
        return value

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(KEYS):
            return op(*tree_map(cast, args), **tree_map(cast, kwargs))

    return run
