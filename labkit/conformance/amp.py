"""labkit.amp against torch.amp: who is cast and how, what comes out, and what a scaler does.

Nothing here needs a GPU: PyTorch says how its "cuda" lists cast by way of fake tensors.
"""

import logging
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import labkit as lab
from labkit import amp
from labkit.amp.lists import LISTS
from labkit.conformance.report import Comparison, Size
from labkit.conformance.sides import LABKIT_DTYPES, TORCH_DTYPES
from labkit.conformance.tally import Tally
from labkit.core.dtype import DTYPES

NOT_MODELLED: tuple[str, ...] = (
    "autocast on other devices than cpu and cuda; custom_fwd and custom_bwd",
    "overloads of named tensors",
    "optimizers that take the scale themselves (fused=True), sparse gradients",
)
PROGRAMS = {"small": 60, "full": 3_000}
RUNS = {"small": 40, "full": 2_000}
PATTERNS = {"small": 20_000, "full": 5_000_000}
_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_LOWER = {"cpu": torch.bfloat16, "cuda": torch.float16}
_SEEN = {
    "lower_precision_fp": "lower", "fp32": "float32", "fp32_set_opt_dtype": "float32",
    "promote": "widest", "banned": "refused",
}  # fmt: skip
"""Policy -> how it looks from outside."""


def compare(seed: int, size: Size, **_options: str) -> Iterator[Comparison]:
    """The lists whole; random conversions, programs and training runs."""
    for device in _KEYS:
        yield _lists(device)
    r = random.Random(f"amp {seed}")
    yield _conversions(r, PATTERNS[size])
    yield _programs(r, PROGRAMS[size])
    yield _scalers(r, RUNS[size])


# -- the lists ----------------------------------------------------------------------------


def _lists(device: str) -> Comparison:
    """Every operator with an autocast kernel in PyTorch, and every one in labkit's lists."""
    key = _KEYS[device]
    theirs = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key) and not _takes_names(name)
    }
    ours = {name for names in LISTS[device].values() for name in names.split()}
    tally = Tally(f"how {device} operators are cast")
    with _torch_autocast(device):
        for name in sorted(theirs | ours):
            policy = amp.policy_of(name, device)
            seen = treatment(name, device) if name in theirs else "not cast"
            tally.add(_SEEN[policy] if policy else "not cast", seen, f"  {name}")
    return tally.result()


def _takes_names(name: str) -> bool:
    """True for the overloads of named tensors, which older versions of PyTorch have."""
    return "imname" in name or ".names" in name


@contextmanager
def _torch_autocast(device: str) -> Iterator[None]:
    """Fake tensors of the device under autocast, which needs no such device."""
    complaints = logging.getLogger("torch._subclasses.fake_tensor")
    level = complaints.level
    with FakeTensorMode(), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        was = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, _LOWER[device])
        complaints.setLevel(logging.CRITICAL)  # most calls fail, and each would be reported
        try:
            yield
        finally:
            complaints.setLevel(level)
            torch.set_autocast_enabled(device, was[0])
            torch.set_autocast_dtype(device, was[1])


class _Casts(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """The element types that tensors are converted to, until an operator fails."""

    def __init__(self) -> None:
        super().__init__()
        self.to: list[torch.dtype] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.to.append((kwargs or {})["dtype"])
        return func(*args, **(kwargs or {}))


def treatment(name: str, device: str) -> str:
    """What autocast does to an operator, told from runs on tensors of three mixtures of types.

    Most runs fail, on shapes that do not fit: the casts come first.
    """
    lower = _LOWER[device]
    down, _, message = _run(name, device, torch.float32, torch.float32)
    if "unsafe to autocast" in message:
        return "refused"
    if lower in down:
        return "lower"
    up, results, _ = _run(name, device, lower, lower)
    if torch.float32 in up + results:
        return "float32"
    mixed, _, _ = _run(name, device, torch.float32, lower)
    return "widest" if torch.float32 in mixed else "nothing seen"


def _run(
    name: str, device: str, first: torch.dtype, others: torch.dtype
) -> tuple[list[torch.dtype], list[torch.dtype], str]:
    """The types converted to, the types of the results, and the error; the first tensor may be of
    another type than all others.
    """
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tensors = iter([first, *[others] * 20])
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in op._schema.arguments:
        made = _argument(argument, lambda: torch.ones(3, 3, device=device, dtype=next(tensors)))
        if made is _DEFAULT:
            continue
        if argument.kwarg_only:
            kwargs[argument.name] = made
        else:
            args.append(made)
    casts = _Casts()
    try:
        with casts:
            result = op(*args, **kwargs)
    except Exception as error:
        return casts.to, [], str(error)
    results = [each.dtype for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
    return casts.to, results, ""


_DEFAULT = object()
_VALUES = {
    "int": 1, "number": 1, "float": 1.0, "bool": False, "str": "fro", "List[int]": [1, 0],
    "List[float]": [1.0], "List[Optional[Tensor]]": [None],
}  # fmt: skip


def _argument(argument: Any, tensor: Callable[[], torch.Tensor]) -> Any:
    kind = str(argument.type)
    if kind == "Tensor":
        return tensor()
    if kind == "List[Tensor]":
        return [tensor(), tensor()]
    if argument.has_default_value():
        return _DEFAULT
    return _VALUES.get(kind)


# -- values -------------------------------------------------------------------------------


def _conversions(r: random.Random, count: int) -> Comparison:
    """Random bits, read as float32: the bits of the halves they are rounded to."""
    bits = np.random.default_rng(r.randrange(1 << 30)).integers(0, 1 << 32, count, np.uint32)
    bits[: count // 2] &= np.uint32(0xFFFFF000)  # many of them lie half way between two halves
    values, equal, first = bits.view(np.float32), 0, None
    for name in ("float16", "bfloat16"):
        theirs = torch.from_numpy(values).to(TORCH_DTYPES[name])
        ours = lab.from_numpy(values).to(DTYPES[name])
        their, our = theirs.view(torch.int16).numpy().view(np.uint16), ours.raw().view(np.uint16)
        same = (their == our) | np.isnan(values)  # which NaN it is, is nobody's promise
        equal += int(same.sum())
        for i in np.flatnonzero(~same)[:1]:
            first = first or f"  {bits[i]:#x} to {name}: torch {their[i]:#x}, labkit {our[i]:#x}"
    return Comparison("conversions to float16 and bfloat16, bit by bit", 2 * count, equal, first)


_UNARY = ("exp", "relu", "tanh", "log1p", "sum", "softmax", "cumsum")
_BINARY = ("mm", "add", "mul", "linear", "matmul", "atan2", "cat", "mse_loss", "addmm")


def _programs(r: random.Random, count: int) -> Comparison:
    """Random programs in a region: the type of every intermediate, and of every gradient."""
    tally = Tally("types in random programs on the cpu")
    for number in range(count):
        program = [(r.choice(_UNARY + _BINARY), r.random(), r.random()) for _ in range(6)]
        names = [name for name, _, _ in program]
        for lower in ("float16", "bfloat16"):
            theirs = _types_of(torch, program, torch.autocast("cpu", TORCH_DTYPES[lower]))
            region = amp.autocast("cpu", DTYPES[lower])
            ours = _types_of(lab, program, region)
            tally.add(ours, theirs, f"  program {number}, {lower}, {' '.join(names)}")
    return tally.result()


def _types_of(m: Any, program: list[tuple[str, float, float]], region: Any) -> list[str]:
    weight = m.ones(3, 3, requires_grad=True)
    pool = [weight, m.full((3, 3), 0.5), m.full((3, 3), 0.25, dtype=m.float64)]
    types = []
    with region:
        for name, first, second in program:
            a, b = (pool[int(place * len(pool))] for place in (first, second))
            try:
                made = _call(m, name, a, b)
            except RuntimeError:
                types.append("refused")
                continue
            types.append(_name(made.dtype))
            pool.append(made if made.dim() == 2 else made.expand(3, 3))
    total = sum(each.float().sum() for each in pool)
    total.backward()
    return [*types, _name(weight.grad.dtype)]


def _call(m: Any, name: str, a: Any, b: Any) -> Any:
    functional = (torch if m is torch else lab).nn.functional
    if name in ("softmax", "cumsum"):
        return getattr(m, name)(a, 1)
    if name in _UNARY:
        return getattr(m, name)(a)
    if name == "cat":
        return m.cat([a[:1], b[:2]])
    if name == "addmm":
        return m.addmm(a, a, b)
    return getattr(functional if name in ("linear", "mse_loss") else m, name)(a, b)


def _name(dtype: Any) -> str:
    return str(LABKIT_DTYPES[dtype] if isinstance(dtype, torch.dtype) else dtype)


# -- scalers ------------------------------------------------------------------------------


def _scalers(r: random.Random, count: int) -> Comparison:
    """Training runs whose gradients overflow now and then: state and weights after each step."""
    tally = Tally("scaler states and weights, step by step")
    for number in range(count):
        options: dict[str, Any] = {
            "init_scale": 2.0 ** r.randrange(-3, 20), "growth_interval": r.randrange(1, 5),
            "growth_factor": r.choice((1.5, 2.0, 8.0)), "backoff_factor": r.choice((0.25, 0.5)),
        }  # fmt: skip
        pattern = [
            [r.choice((1.0, 0.5, -3.0, 1e-6, 3e38, float("inf"), float("nan"))) for _ in range(2)]
            for _ in range(12)
        ]
        theirs = run_scaler(torch, torch.amp.GradScaler("cpu", **options), pattern)
        ours = run_scaler(lab, amp.GradScaler("cpu", **options), pattern)
        for step, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            tally.add(our, their, f"  run {number} {options}, {pattern}, step {step}")
    return tally.result()


def run_scaler(m: Any, scaler: Any, pattern: list[list[float]], device: str = "cpu") -> list[Any]:
    """After every step: the scaler's state, and the weights of two optimizers."""
    weights = [m.ones(2, device=device, requires_grad=True) for _ in range(2)]
    optimizers = [m.optim.SGD([weight], lr=0.5) for weight in weights]
    after = []
    for slopes in pattern:
        for weight in weights:
            weight.grad = None
        scaler.scale(sum(w.sum() * g for w, g in zip(weights, slopes, strict=True))).backward()
        scaler.unscale_(optimizers[0])
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        after.append(str([scaler.state_dict(), [weight.tolist() for weight in weights]]))
        if len(after) == len(pattern) // 2:
            scaler.load_state_dict(scaler.state_dict())
    return after
