"""The keys a dispatch table is indexed by, in PyTorch's order and with PyTorch's numbers.

Three kinds share one enum. A *functionality* is a bit of a key set; its number is its
priority. Six functionalities are kept per backend: each of those is followed, further down,
by sixteen *runtime* keys (`CPU` is Dense on the CPU backend). An *alias* stands for many
runtime keys and appears in registrations only.

Source   c10/core/DispatchKey.h  DispatchKey, BackendComponent
"""

from enum import IntEnum


class DispatchKey(IntEnum):
    """One name a kernel can be registered under; among functionalities, larger wins.

    Source   c10/core/DispatchKey.h  DispatchKey
    Differs  The list is 2.13's. 2.11 has `Python` before `Fake`, and `Named` after
             `Functionalize`, so every later number there is one higher.
    """

    Undefined = 0
    Dense = 1
    FPGA = 2
    Vulkan = 3
    Metal = 4
    Quantized = 5
    CustomRNGKeyId = 6
    MkldnnCPU = 7
    Sparse = 8
    SparseCsr = 9
    NestedTensor = 10
    BackendSelect = 11
    Fake = 12
    Python = 13
    FuncTorchDynamicLayerBackMode = 14
    Functionalize = 15
    Conjugate = 16
    Negative = 17
    ZeroTensor = 18
    ADInplaceOrView = 19
    AutogradOther = 20
    AutogradFunctionality = 21
    AutogradNestedTensor = 22
    Tracer = 23
    AutocastCPU = 24
    AutocastMTIA = 25
    AutocastMAIA = 26
    AutocastXPU = 27
    AutocastIPU = 28
    AutocastHPU = 29
    AutocastXLA = 30
    AutocastMPS = 31
    AutocastCUDA = 32
    AutocastPrivateUse1 = 33
    FuncTorchBatched = 34
    BatchedNestedTensor = 35
    FuncTorchVmapMode = 36
    Batched = 37
    VmapMode = 38
    FuncTorchGradWrapper = 39
    DeferredInit = 40
    PythonTLSSnapshot = 41
    FuncTorchDynamicLayerFrontMode = 42
    TESTING_ONLY_GenericWrapper = 43
    TESTING_ONLY_GenericMode = 44
    PreDispatch = 45
    PythonDispatcher = 46
    EndOfFunctionalityKeys = 47

    # Runtime keys: a start marker per functionality, then one key per backend.
    StartOfDenseBackends = 48
    (CPU, CUDA, HIP, XLA, MPS, IPU, XPU, HPU, VE, Lazy, MTIA, MAIA) = range(49, 61)
    (PrivateUse1, PrivateUse2, PrivateUse3, Meta) = range(61, 65)

    StartOfQuantizedBackends = 65
    (QuantizedCPU, QuantizedCUDA, QuantizedHIP, QuantizedXLA) = range(66, 70)
    (QuantizedMPS, QuantizedIPU, QuantizedXPU, QuantizedHPU) = range(70, 74)
    (QuantizedVE, QuantizedLazy, QuantizedMTIA, QuantizedMAIA) = range(74, 78)
    (QuantizedPrivateUse1, QuantizedPrivateUse2, QuantizedPrivateUse3) = range(78, 81)
    QuantizedMeta = 81

    StartOfSparseBackends = 82
    (SparseCPU, SparseCUDA, SparseHIP, SparseXLA) = range(83, 87)
    (SparseMPS, SparseIPU, SparseXPU, SparseHPU) = range(87, 91)
    (SparseVE, SparseLazy, SparseMTIA, SparseMAIA) = range(91, 95)
    (SparsePrivateUse1, SparsePrivateUse2, SparsePrivateUse3) = range(95, 98)
    SparseMeta = 98

    StartOfSparseCsrBackends = 99
    (SparseCsrCPU, SparseCsrCUDA, SparseCsrHIP, SparseCsrXLA) = range(100, 104)
    (SparseCsrMPS, SparseCsrIPU, SparseCsrXPU, SparseCsrHPU) = range(104, 108)
    (SparseCsrVE, SparseCsrLazy, SparseCsrMTIA, SparseCsrMAIA) = range(108, 112)
    (SparseCsrPrivateUse1, SparseCsrPrivateUse2, SparseCsrPrivateUse3) = range(112, 115)
    SparseCsrMeta = 115

    StartOfNestedTensorBackends = 116
    (NestedTensorCPU, NestedTensorCUDA, NestedTensorHIP, NestedTensorXLA) = range(117, 121)
    (NestedTensorMPS, NestedTensorIPU, NestedTensorXPU, NestedTensorHPU) = range(121, 125)
    (NestedTensorVE, NestedTensorLazy, NestedTensorMTIA, NestedTensorMAIA) = range(125, 129)
    (NestedTensorPrivateUse1, NestedTensorPrivateUse2, NestedTensorPrivateUse3) = range(129, 132)
    NestedTensorMeta = 132

    StartOfAutogradFunctionalityBackends = 133
    (AutogradCPU, AutogradCUDA, AutogradHIP, AutogradXLA) = range(134, 138)
    (AutogradMPS, AutogradIPU, AutogradXPU, AutogradHPU) = range(138, 142)
    (AutogradVE, AutogradLazy, AutogradMTIA, AutogradMAIA) = range(142, 146)
    (AutogradPrivateUse1, AutogradPrivateUse2, AutogradPrivateUse3) = range(146, 149)
    AutogradMeta = 149

    # Aliases: registered once, they fill many slots.
    Autograd = 150
    CompositeImplicitAutograd = 151
    FuncTorchBatchedDecomposition = 152
    CompositeImplicitAutogradNestedTensor = 153
    CompositeExplicitAutograd = 154
    CompositeExplicitAutogradNonFunctional = 155

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, name: "str | DispatchKey") -> "DispatchKey":
        """The key of that name.

        Raises   ValueError   no key is called that; the nearest names are listed
        Source   c10/core/DispatchKey.cpp  parseDispatchKey
        Differs  PyTorch parses 42 of its runtime keys (QuantizedHIP, AutogradMTIA, ...) from
                 no name at all; here every key has one.
        """
        if isinstance(name, DispatchKey):
            return name
        key = cls.__members__.get(name)
        if key is None or key.is_marker:
            from difflib import get_close_matches  # an error path: not worth a slower import

            near = get_close_matches(str(name), cls.__members__, n=4, cutoff=0.5)
            raise ValueError(
                f"no dispatch key is called {name!r}"
                + (f"; did you mean {', '.join(near)}?" if near else "")
            )
        return key

    @property
    def is_marker(self) -> bool:
        """True for the numbers that only separate the groups of the enum."""
        return self is DispatchKey.EndOfFunctionalityKeys or self.name.startswith("StartOf")

    @property
    def is_alias(self) -> bool:
        """True for a key that stands for many slots and has none of its own."""
        return self >= DispatchKey.Autograd

    @property
    def is_per_backend(self) -> bool:
        """True for a functionality that has one slot per backend."""
        return self in PER_BACKEND_FUNCTIONALITIES

    @property
    def functionality(self) -> "DispatchKey":
        """The functionality of a runtime key: AutogradFunctionality for AutogradCPU.

        Source   c10/core/DispatchKey.h  toFunctionalityKey
        """
        if self <= DispatchKey.EndOfFunctionalityKeys:
            return self
        if self.is_alias:
            return DispatchKey.Undefined
        return PER_BACKEND_FUNCTIONALITIES[(self - 48) // (len(BACKENDS) + 1)]

    @property
    def backend_bit(self) -> int:
        """Which backend bit a runtime key owns, 0 for CPU; -1 when it owns none.

        Source   c10/core/DispatchKey.h  toBackendComponent
        """
        if self <= DispatchKey.EndOfFunctionalityKeys or self.is_alias:
            return -1
        return (self - 48) % (len(BACKENDS) + 1) - 1


BACKENDS = (
    "CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA",
    "PrivateUse1", "PrivateUse2", "PrivateUse3", "Meta",
)  # fmt: skip
"""The backend of each backend bit. Source: c10/core/DispatchKey.h BackendComponent."""

PER_BACKEND_FUNCTIONALITIES = (
    DispatchKey.Dense,
    DispatchKey.Quantized,
    DispatchKey.Sparse,
    DispatchKey.SparseCsr,
    DispatchKey.NestedTensor,
    DispatchKey.AutogradFunctionality,
)

FUNCTIONALITIES = tuple(
    key for key in DispatchKey if DispatchKey.Undefined < key < DispatchKey.EndOfFunctionalityKeys
)
"""Every functionality, weakest first."""


def runtime_key(functionality: DispatchKey, backend_bit: int) -> DispatchKey:
    """The runtime key of a per-backend functionality on one backend (-1: the group's marker).

    Source   c10/core/DispatchKey.h  toRuntimePerBackendFunctionalityKey
    """
    group = PER_BACKEND_FUNCTIONALITIES.index(functionality)
    return DispatchKey(48 + group * (len(BACKENDS) + 1) + 1 + backend_bit)


def _runtime_keys() -> tuple[DispatchKey, ...]:
    keys = [DispatchKey.Undefined]
    for functionality in FUNCTIONALITIES:
        if functionality.is_per_backend:
            keys += [runtime_key(functionality, bit) for bit in range(len(BACKENDS))]
        else:
            keys.append(functionality)
    return tuple(keys)


RUNTIME_KEYS = _runtime_keys()
"""The key of every slot of a dispatch table, in table order: 137 of them."""

SLOT_OF = {key: slot for slot, key in enumerate(RUNTIME_KEYS)}
"""Runtime key -> its index in a dispatch table."""
