"""Why a tensor has each of its keys."""

from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet

K = DispatchKey

_WHY = {
    K.Dense: "its storage is on this device, with strides",
    K.Sparse: "its layout is sparse_coo",
    K.SparseCsr: "its layout is a compressed sparse one",
    K.Quantized: "its dtype is quantised",
    K.NestedTensor: "it is a nested tensor",
    K.MkldnnCPU: "its layout is oneDNN's own",
    K.AutogradFunctionality: "not an inference tensor, so autograd looks at it (even when "
    "requires_grad is False)",
    K.AutogradOther: "not an inference tensor, and its backend has no autograd key of its own",
    K.AutogradNestedTensor: "not an inference tensor, and nested",
    K.ADInplaceOrView: "not an inference tensor, so versions and views are tracked",
    K.Conjugate: "its conjugation is still to be done (is_conj())",
    K.Negative: "its negation is still to be done (is_neg())",
    K.ZeroTensor: "it stands for zeros without storage",
    K.Functionalize: "it wraps a functional tensor",
    K.FuncTorchBatched: "it wraps a batch inside vmap",
    K.FuncTorchGradWrapper: "it wraps a tensor inside a grad transform",
    K.Python: "its class has __torch_dispatch__",
    K.PythonTLSSnapshot: "its class has __torch_dispatch__, which wants the thread's sets",
}


def origins(tensor: Any, keys: DispatchKeySet) -> list[tuple[str, str]]:
    """(key name, why the tensor has it) for every runtime key, strongest first."""
    found = []
    for key in reversed(list(keys)):
        if key.name.startswith("Autocast"):
            why = "its device has an autocast key; the thread excludes it unless autocast is on"
        else:
            why = _WHY.get(key.functionality, "")
            # a set lists every functionality on every backend present, whoever brought it
        found.append((key.name, why))
    return found
