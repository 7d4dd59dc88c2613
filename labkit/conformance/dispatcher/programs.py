"""(c) Random programs of registrations, overrides and removals, on both dispatchers.

After every step: the recomputed table, cell by cell; PyTorch's verdict on its own stored table;
and a few stored cells, read by making the call that reads them.
"""

import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from labkit.conformance.dispatcher.tables import as_torch_prints, slots_that_exist
from labkit.conformance.dispatcher.twin import Twin, TwinFallback, World
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core.dispatch_key import RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import torch_tables
from labkit.dispatch.dispatcher import Rule
from labkit.dispatch.table import AMBIGUOUS, Cell
from labkit.dispatch.torch_keys import to_torch
from labkit.dispatch.torch_operator import is_stale

_C: Any = torch._C
K = DispatchKey
HOW_MANY = {"small": 100, "full": 6_000}
STEPS = 14

ALIASES = [key for key in K if key.is_alias]
COMMON = [
    K.CPU, K.CUDA, K.Meta, K.QuantizedCPU, K.SparseCPU, K.SparseCsrCUDA, K.NestedTensorCPU,
    K.MkldnnCPU, K.AutogradCPU, K.AutogradOther, K.AutogradNestedTensor, K.FuncTorchBatched,
    K.HIP, K.VE, K.MTIA, K.XLA, K.Lazy, K.ADInplaceOrView, K.BackendSelect, K.Undefined,
]  # fmt: skip
UNUSED = [K.FPGA, K.Vulkan, K.PrivateUse2, K.DeferredInit, K.TESTING_ONLY_GenericMode]
"""Keys without a fallback of PyTorch's own: a program may give them one."""


class _RuleTally:
    """Of a rule of somebody else's: is what it stores what PyTorch prints?

    Printing works every cell out anew, so the rule that PyTorch 2.13 follows itself is red.
    """

    def __init__(self, programs: int) -> None:
        self.kept = Tally(f"stored cells in {programs:,} random registration programs")

    def state(self, rng: random.Random, twin: Twin, hit: "_Hit", about: str) -> None:
        """After a step."""
        printed = torch_tables.table_of(twin.full_name)
        for slot, cell in zip(RUNTIME_KEYS, twin.op.dispatch_table, strict=True):
            theirs = printed.get(slot)
            runs = None if theirs is None or theirs.reason == AMBIGUOUS else theirs.debug
            mine = None if cell.kernel is None else cell.kernel.debug
            self.kept.add(mine, runs, f"{about}\n  cell {slot}")


def compare_rule(seed: int, size: Size, rule: Rule) -> Iterator[Comparison]:
    """Run the programs with operators that store by this rule."""
    tally = _RuleTally(HOW_MANY[size])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding a kernel is what the programs do
        for number in range(HOW_MANY[size]):
            rng = random.Random(f"programs {seed} {number}")
            _program(rng, f"r{seed}_{number}", tally, World(rule))
    yield tally.kept.result()


class _Tallies:
    def __init__(self, programs: int) -> None:
        self.cells = Tally(f"recomputed cells in {programs:,} random registration programs")
        self.verdict = Tally("is the stored table stale? (against PyTorch's own check)")
        self.stored = Tally("stored cells read by a real call")
        self.stale = 0

    def state(self, rng: random.Random, twin: Twin, hit: "_Hit", about: str) -> None:
        """After a step."""
        real = torch_tables.table_of(twin.full_name)
        computed = twin.op.computed_table()
        for slot, cell in zip(RUNTIME_KEYS, computed, strict=True):
            self.cells.add(as_torch_prints(cell), real.get(slot), f"{about}\n  cell {slot}")
        mine = _looks_stale(twin.op.dispatch_table, computed)
        self.verdict.add(mine, is_stale(twin.full_name), about)
        stale = twin.op.stale_slots()
        for slot in {rng.choice(slots_that_exist()), *rng.sample(stale, min(len(stale), 2))}:
            kernel = twin.op.dispatch_table[SLOT_OF[slot]].kernel
            if kernel is not None and kernel.form == "unknown":
                continue  # one of PyTorch's own fallbacks: it would act on what the slot promises
            self.stale += slot in stale
            keys = DispatchKeySet(slot)
            ours = _run(partial(twin.op.redispatch, keys, _X), hit)
            theirs = _run(partial(twin.handle.redispatch_boxed, to_torch(keys), _X), hit)
            self.stored.add(ours, theirs, f"{about}\n  stored cell {slot}")


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Run the programs."""
    tallies = _Tallies(HOW_MANY[size])
    for number in range(HOW_MANY[size]):
        rng = random.Random(f"programs {seed} {number}")
        _program(rng, f"p{seed}_{number}", tallies, World())
    tallies.stored.what += f" ({tallies.stale:,} of them stale)"
    yield from (each.result() for each in (tallies.cells, tallies.verdict, tallies.stored))


class _Hit:
    """Which kernel ran last; one Python function per registration writes it."""

    def __init__(self) -> None:
        self.value: object = None

    def kernel(self, label: object) -> Callable[..., Any]:
        def kernel(x: Any) -> Any:
            self.value = label
            return x

        return kernel


def _program(rng: random.Random, name: str, tallies: _Tallies | _RuleTally, world: World) -> None:
    keys = [*rng.sample(slots_that_exist(), 4), *rng.sample(COMMON, 5), *ALIASES]
    hit = _Hit()
    fallback: TwinFallback | None = None
    twin = Twin(world, name, "(Tensor x) -> Tensor", defined=rng.random() < 0.9)
    log: list[str] = []
    for step in range(STEPS):
        alive = twin.alive
        if rng.random() < 0.01 and fallback is None:
            key = rng.choice(UNUSED)
            fallback = TwinFallback(world, key)
            log.append(f"fallback {key}")
        elif alive and rng.random() < 0.33:
            number = rng.choice(alive)
            twin.remove(number)
            log.append(f"remove {number}")
        else:
            key = rng.choice(keys)
            skip = rng.random() < 0.12
            kernel = None if skip else hit.kernel(step)
            number = twin.register(key, kernel, kernel)
            log.append(f"{number}: {'fallthrough' if skip else 'kernel'} at {key}")
        if not twin.is_defined and (rng.random() < 0.3 or not twin.alive):
            twin.define()
            log.append("define")
        if twin.is_defined:
            tallies.state(rng, twin, hit, f"{name} after {'; '.join(log)}")
    twin.close()
    if fallback is not None:
        fallback.close()


_X = torch.ones(1)


def _run(call: Callable[[], Any], hit: _Hit) -> object:
    """Which kernel ran, or in which way nothing did."""
    hit.value = None
    try:
        call()
    except RuntimeError as error:
        return ending(error)
    return hit.value


def ending(error: Exception) -> str:
    """In which way the last hop found nothing to run."""
    text = str(error)
    if isinstance(error, NotImplementedError) or "_equalsBoxedAndUnboxed" in text:
        return "missing"  # the second: PyTorch checks its table before it reports; it was stale
    if "fallthrough_kernel" in text or "its cell is a fallthrough" in text:
        return "fallthrough"
    return "ambiguous" if "autogradother" in text.lower() else f"error {text}"


def _looks_stale(stored: list[Cell], computed: tuple[Cell, ...]) -> bool:
    """What PyTorch's check can see: it compares C++ function pointers, and all Python kernels
    share one, as do all fallthroughs.
    """
    pairs = zip(stored, computed, strict=True)
    return any(_pointer(kept) != _pointer(now) for kept, now in pairs)


def _pointer(cell: Cell) -> str:
    if cell.kernel is None:
        return cell.reason
    return cell.kernel.debug if cell.kernel.form == "unknown" else cell.kernel.form
