"""(d) Random calls of recording kernels under random thread-local sets: every hop compared.

Each kernel writes down who it is and the key set it got, then redispatches to the rest of that
set, until nothing is left or a cell is empty. Recording kernels also stand in every slot where
PyTorch has a fallback of its own: those would act on what the key promises.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from labkit.conformance.dispatcher.programs import ALIASES, COMMON, ending
from labkit.conformance.dispatcher.tables import slots_that_exist
from labkit.conformance.dispatcher.twin import Twin, World
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core.dispatch_key import FUNCTIONALITIES, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import tls, torch_tables
from labkit.dispatch.torch_keys import from_torch, key_set_of_tensor, layout, to_torch, torch_key

_C: Any = torch._C
K = DispatchKey
HOW_MANY = {"small": (100, 10), "full": (1_800, 15)}
SCHEMAS = (
    "(Tensor x) -> Tensor",
    "(Tensor x, Tensor y) -> Tensor",
    "(Tensor x, Tensor? y, int n=3) -> Tensor",
    "(Tensor[] xs, Tensor? y=None) -> Tensor",
    "(Tensor?[] xs) -> Tensor",
    "(int n, Tensor[]? unseen=None) -> int",
)


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Make the calls."""
    operators, calls_each = HOW_MANY[size]
    tally = Tally(f"paths of {operators * calls_each:,} real calls under random thread-local sets")
    hops = 0
    for number in range(operators):
        rng = random.Random(f"calls {seed} {number}")
        hops += _calls_of_one_operator(rng, f"c{seed}_{number}", calls_each, tally)
    tally.what += f" ({hops:,} hops)"
    yield tally.result()


@cache
def tensors() -> dict[str, torch.Tensor]:
    """Tensors of many key sets."""
    dense = torch.ones(2, 2)
    with torch.inference_mode():
        inference = torch.ones(2)
    made = {
        "cpu": dense,
        "leaf": torch.ones(2, requires_grad=True),
        "meta": torch.empty(2, device="meta"),
        "sparse": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([dense, dense]),
        "inference": inference,
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "neg": torch._neg_view(dense),
        "zero": torch._efficientzerotensor(2),
    }
    if torch.backends.mkldnn.is_available():
        made["mkldnn"] = dense.to_mkldnn()
    return made


class _Fake:
    """labkit's stand-in: a tensor is its key set here."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self._key_set = keys


class _Paths:
    """What the kernels of both sides wrote down."""

    def __init__(self) -> None:
        self.mine: list[tuple[object, int]] = []
        self.real: list[tuple[object, int]] = []

    def kernels(
        self, twin: Twin, label: object, bottom: bool
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """A recording kernel for each side; a bottom one does not redispatch."""

        def mine(keys: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
            self.mine.append((label, keys.raw))
            if bottom or keys.slot_key() is K.Undefined:
                return args[0] if args else 0
            below = keys & DispatchKeySet.full_after(keys.highest_functionality())
            return twin.op.redispatch(below.remove(K.PythonDispatcher), *args, **kwargs)

        def real(keys: Any, *args: Any, **kwargs: Any) -> Any:
            self.real.append((label, from_torch(keys).raw))
            if bottom or int(keys.highestPriorityTypeId()) == 0:
                return args[0] if isinstance(args[0], torch.Tensor | int) else tensors()["cpu"]
            below = keys & _C._dispatch_keyset_full_after(keys.highestPriorityTypeId())
            below = below.remove(torch_key(K.PythonDispatcher))
            return twin.handle.redispatch_boxed(below, *args, **kwargs)

        return mine, real


def _calls_of_one_operator(rng: random.Random, name: str, calls: int, tally: Tally) -> int:
    twin = Twin(World(), name, rng.choice(SCHEMAS))
    paths = _Paths()
    log: list[str] = []
    for key in _places(rng):
        skip = rng.random() < 0.15
        label = f"{key}{len(log)}"
        mine, real = paths.kernels(twin, label, key in _BOTTOMS and rng.random() < 0.5)
        number = twin.register(
            key, None if skip else mine, None if skip else real, with_keyset=not skip
        )
        log.append(f"{'fallthrough' if skip else 'kernel'} at {key}")
        if key not in _GUARDED and rng.random() < 0.08:
            twin.remove(number)
            log.append("removed")
    hops = 0
    for _ in range(calls):
        hops += _one_call(rng, twin, paths, tally, f"{name}: {'; '.join(log)}")
    twin.close()
    return hops


_BOTTOMS = {K.CPU, K.Meta, K.SparseCPU, K.QuantizedCPU, K.CompositeExplicitAutograd, K.MkldnnCPU}
_GUARDED = frozenset(
    key for key, kernel in torch_tables.global_fallbacks().items() if not kernel.is_fallthrough
)
"""Slots with a fallback of PyTorch's own that would act: a kernel of ours always stands there."""


def _places(rng: random.Random) -> list[DispatchKey]:
    guarded = sorted(_GUARDED)
    rng.shuffle(guarded)
    free = [key for key in slots_that_exist() if key not in _GUARDED]
    some = [*rng.sample(free, rng.randrange(3, 12)), *rng.sample(COMMON, rng.randrange(3, 10))]
    some += rng.sample(ALIASES, rng.randrange(0, 4))
    rng.shuffle(some)
    return some[: len(some) // 2] + guarded + some[len(some) // 2 :]


def _one_call(rng: random.Random, twin: Twin, paths: _Paths, tally: Tally, about: str) -> int:
    args = _arguments(rng, twin.op.schema)
    included, excluded = _local_sets(rng)
    paths.mine.clear()
    paths.real.clear()
    try:
        with _C._ForceDispatchKeyGuard(to_torch(included), to_torch(excluded)):
            _C._dispatch_call_boxed(twin.handle, *args)
        real_end = "returned"
    except RuntimeError as error:
        real_end = ending(error)
    try:
        with tls.ForceDispatchKeyGuard(included, excluded):
            twin.op(*[_stand_in(value) for value in args])
        mine_end = "returned"
    except RuntimeError as error:
        mine_end = ending(error)
    shown = [key_set_of_tensor(v) if isinstance(v, torch.Tensor) else v for v in args]
    tally.add(
        ([*paths.mine], mine_end),
        ([*paths.real], real_end),
        f"{about}\n  called with {shown}, included {included}, excluded {excluded}",
    )
    return len(paths.real)


def _stand_in(value: Any) -> Any:
    if isinstance(value, list):
        return [_stand_in(item) for item in value]
    return _Fake(key_set_of_tensor(value)) if isinstance(value, torch.Tensor) else value


def _arguments(rng: random.Random, schema: Any) -> list[Any]:
    zoo = list(tensors().values())
    made: list[Any] = []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor" or (kind == "Tensor?" and rng.random() < 0.6):
            made.append(rng.choice(zoo))
        elif kind.startswith("Tensor["):
            made.append(rng.sample(zoo, rng.randrange(0, 4)))
        elif kind == "Tensor?[]":
            made.append([rng.choice([None, *zoo]) for _ in range(rng.randrange(0, 4))])
        else:
            made.append(rng.randrange(9) if kind == "int" else None)
    return made


_TLS_KEYS = [key for key in FUNCTIONALITIES if key not in layout().absent]


def _local_sets(rng: random.Random) -> tuple[DispatchKeySet, DispatchKeySet]:
    """The defaults with a few keys toggled; now and then anything at all."""
    if rng.random() < 0.2:
        wild = [DispatchKeySet(*rng.sample(slots_that_exist(), rng.randrange(8))) for _ in "ie"]
        return wild[0], wild[1]
    toggled_in = DispatchKeySet(*rng.sample(_TLS_KEYS, rng.randrange(4)))
    toggled_out = DispatchKeySet(*rng.sample(_TLS_KEYS, rng.randrange(5)))
    return tls.DEFAULT_INCLUDED ^ toggled_in, tls.DEFAULT_EXCLUDED ^ toggled_out
