"""Which slots an alias key fills, and which backend keys an autograd slot watches.

Source   c10/core/DispatchKeySet.cpp
"""

from labkit.core.dispatch_key import BACKENDS, DispatchKey, runtime_key
from labkit.core.dispatch_key_set import BACKEND_MASK, DispatchKeySet, keyset

K = DispatchKey
ALL_BACKENDS = keyset(BACKEND_MASK)

AUTOGRAD_SET = ALL_BACKENDS | DispatchKeySet(
    K.AutogradFunctionality, K.AutogradOther, K.AutogradNestedTensor
)
"""Source: c10/core/DispatchKeySet.h autograd_dispatch_keyset."""

AUTOGRADOTHER_BACKENDS = ALL_BACKENDS | DispatchKeySet(
    K.FPGA, K.Vulkan, K.Metal, K.CustomRNGKeyId, K.MkldnnCPU, K.Sparse, K.SparseCsr, K.Quantized
)
"""Backends that share the AutogradOther slot. Source: c10/core/DispatchKeySet.h."""

BACKEND_SET = AUTOGRADOTHER_BACKENDS | DispatchKeySet(K.Dense)
"""Every key whose kernels compute; NestedTensor is not one of them.
Source: c10/core/DispatchKeySet.cpp backend_dispatch_keyset."""

AUTOCAST_SET = DispatchKeySet(*(key for key in K if key.name.startswith("Autocast")))
"""Source: c10/core/DispatchKeySet.h autocast_dispatch_keyset."""

ALIAS_SETS = {
    K.Autograd: AUTOGRAD_SET,
    K.CompositeImplicitAutograd: BACKEND_SET | AUTOGRAD_SET | DispatchKeySet(K.NestedTensor),
    K.FuncTorchBatchedDecomposition: DispatchKeySet(K.FuncTorchBatched),
    K.CompositeImplicitAutogradNestedTensor: ALL_BACKENDS
    | DispatchKeySet(K.NestedTensor, K.AutogradNestedTensor),
    K.CompositeExplicitAutograd: BACKEND_SET,
    K.CompositeExplicitAutogradNonFunctional: keyset(
        # Sparse goes as a functionality, XLA and Lazy as backend bits: only a raw word can say it
        (BACKEND_SET - DispatchKeySet(K.Sparse)).raw
        & ~(1 << BACKENDS.index("XLA") | 1 << BACKENDS.index("Lazy"))
    ),
}

SLOTS_OF_ALIAS = {alias: frozenset(keys) for alias, keys in ALIAS_SETS.items()}
"""Alias -> the runtime keys it fills. Source: c10/core/DispatchKeySet.cpp
getRuntimeDispatchKeySet."""

BACKEND_KEYS = frozenset(BACKEND_SET)
"""Runtime keys for which `isBackendDispatchKey` holds."""

_FORGOTTEN = {"HIP", "VE", "MTIA"}  # the switch in c10 has no case for these three
BACKENDS_OF_AUTOGRAD = {
    K.AutogradOther: frozenset(AUTOGRADOTHER_BACKENDS),
    K.AutogradNestedTensor: frozenset(DispatchKeySet(K.NestedTensor) | ALL_BACKENDS),
} | {
    runtime_key(K.AutogradFunctionality, bit): frozenset(
        () if name in _FORGOTTEN else (runtime_key(K.Dense, bit),)
    )
    for bit, name in enumerate(BACKENDS)
}
"""Autograd slot -> the backend keys whose kernels it defers to.
Source: c10/core/DispatchKeySet.cpp getBackendKeySetFromAutograd."""


def slots_of(key: DispatchKey) -> tuple[DispatchKey, ...]:
    """The slots a registration at `key` touches: an alias's many, otherwise its own."""
    if key.is_alias:
        return tuple(ALIAS_SETS[key])
    return (key,)


def autograd_slot_of_backend(key: DispatchKey) -> DispatchKey:
    """The one autograd slot that is refreshed when a backend kernel comes or goes.

    Differs  Nothing: QuantizedCPU refreshes AutogradCPU although AutogradOther is the slot that
             looks at it. This is one way a stored table goes stale.
    Source   c10/core/DispatchKeySet.cpp  getAutogradKeyFromBackend
    """
    if key.backend_bit < 0 or BACKENDS[key.backend_bit] in {"HIP", "VE"}:
        return K.AutogradOther
    return runtime_key(K.AutogradFunctionality, key.backend_bit)
