"""labkit: a readable scale model of PyTorch's own tree.

`import labkit as lab` gives PyTorch's names with PyTorch's meaning: `lab.zeros(3, 4)`,
`lab.Tensor`, `lab.float32`. Each is imported when it is first asked for.
"""

import importlib
import importlib.util
import math
from typing import Any

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
        dtypes = importlib.import_module("labkit.core.dtype").NAMES
        if name in dtypes:
            return dtypes[name]
        importlib.import_module("labkit._tensor")
        function = importlib.import_module("labkit._tensor.bindings").function(name)
        if function is not None:
            globals()[name] = function
            return function
    raise importlib.import_module("labkit.core.missing").missing("module 'labkit'", name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext labkit` has made `%%cuda` known: a whole CUDA program in a cell."""
    importlib.import_module("labkit.show.cuda_cell").load(shell)


def __dir__() -> list[str]:
    importlib.import_module("labkit.ops.all")
    operators = importlib.import_module("labkit.ops.registration").names_of("function")
    public = [name for name in operators if not name.startswith("_")]
    dtypes = importlib.import_module("labkit.core.dtype").NAMES
    return sorted({*globals(), *_EXPORTS, *_MEMORY_FORMATS, *dtypes, *public})
