"""labkit: a readable scale model of PyTorch's own tree.

`import labkit as lab` gives PyTorch's names with PyTorch's meaning: `lab.zeros(3, 4)`,
`lab.Tensor`, `lab.float32`. Each is imported when it is first asked for.
"""

import importlib
import importlib.util
import math
from typing import Any

_DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_SHORT_DTYPES = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32",
    "long": "int64", "chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128",
    "bool": "bool_",
}  # fmt: skip
_FACTORIES = (
    "tensor", "as_tensor", "from_numpy", "from_dlpack", "broadcast_shapes", "broadcast_tensors",
    "result_type", "equal", "is_tensor", "numel", "is_floating_point", "is_complex",
)  # fmt: skip
_GRAD_MODES = (
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
)
_RANDOM = ("manual_seed", "initial_seed", "get_rng_state", "set_rng_state", "fork_rng")
_FUNCTIONAL = ("split", "norm", "nonzero")
_EXPORTS: dict[str, tuple[str, str]] = {
    **{name: ("labkit.core.dtype", name) for name in _DTYPES},
    **{name: ("labkit.core.dtype", target) for name, target in _SHORT_DTYPES.items()},
    **{name: ("labkit._tensor.factories", name) for name in _FACTORIES},
    "Tensor": ("labkit._tensor", "Tensor"),
    "Size": ("labkit._tensor", "Size"),
    **{name: ("labkit.autograd", name) for name in _GRAD_MODES},
    **{name: ("labkit._tensor.random", name) for name in _RANDOM},
    "Generator": ("labkit.core.generator", "Generator"),
    **{name: ("labkit._tensor.functional", name) for name in _FUNCTIONAL},
    "save": ("labkit._tensor.saving", "save"),
    "load": ("labkit._tensor.saving", "load"),
    "dtype": ("labkit.core.dtype", "DType"),
    "device": ("labkit.core.device", "device"),
    "memory_format": ("labkit.core.memory_format", "MemoryFormat"),
    "finfo": ("labkit.core.type_info", "finfo"),
    "iinfo": ("labkit.core.type_info", "iinfo"),
    "promote_types": ("labkit.core.promotion", "promote_types"),
    "can_cast": ("labkit.core.promotion", "can_cast"),
    "get_default_dtype": ("labkit.core.promotion", "get_default_dtype"),
    "set_default_dtype": ("labkit.core.promotion", "set_default_dtype"),
}
"""Name in `labkit` -> (module, name there)."""

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def __getattr__(name: str) -> Any:
    if name in _MEMORY_FORMATS:
        module = importlib.import_module("labkit.core.memory_format")
        return getattr(module.MemoryFormat, name)
    if name in _EXPORTS:
        module_name, attribute = _EXPORTS[name]
        value = globals()[name] = getattr(importlib.import_module(module_name), attribute)
        return value
    if importlib.util.find_spec(f"labkit.{name}") is not None:
        return importlib.import_module(f"labkit.{name}")
    if not name.startswith("_"):
        importlib.import_module("labkit._tensor")
        function = importlib.import_module("labkit._tensor.bindings").function(name)
        if function is not None:
            globals()[name] = function
            return function
    raise importlib.import_module("labkit.core.missing").missing("labkit", name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext labkit` has made `%%cuda` known: a whole CUDA program in a cell."""
    importlib.import_module("labkit.show.cuda_cell").load(shell)


def __dir__() -> list[str]:
    importlib.import_module("labkit.ops.all")
    operators = importlib.import_module("labkit.ops.registration").names_of("function")
    public = [name for name in operators if not name.startswith("_")]
    return sorted({*globals(), *_EXPORTS, *_MEMORY_FORMATS, *public})
