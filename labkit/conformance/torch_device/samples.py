"""The comparing itself, in a process of its own: prints a line of JSON per question.

Source   torch/testing/_internal/common_methods_invocations.py  op_db
"""

import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import labkit.torch_device  # noqa: F401  names the device
from labkit.conformance.autograd.opinfo import UNINITIALISED, name_of, op_db
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Answers

ENTRIES = {"small": 30, "full": 10_000}
SAMPLES = {"small": 2, "full": 12}
THREADS = 4
AT_ONCE = f"{THREADS} threads at once"
QUESTIONS = ("forward", "backward", "in place", "out=", AT_ONCE)
DTYPES = (torch.float32, torch.int64, torch.bool)
WITHOUT_OUT = {"fft.ihfft2", "fft.ihfftn", "mode"}
"""Entries whose `out` PyTorch's own code leaves as it is, or refuses, except on CPU and CUDA."""
INDEX_ON_THE_CPU = {"tensor_split"}
"""Entries whose tensors beside the first PyTorch wants on the CPU, on every device."""
SPARSE = ("sparse.", "to_sparse")
"""Entries of layouts that the device has not got begin so."""
TOLERANCE = 1e-4
"""Relative, and absolute for numbers below 1: the kernels add up in another order."""

Move = Callable[[str], Any]
"""Device -> a sample's arguments there."""


class Tally(Answers):
    """The answers of the CPU and of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.without: Counter[str] = Counter()
        """Operator -> how often the host computed it."""

    def ask(
        self, question: str, where: str, run: Callable[[Any], Any], moved: Move, place: str
    ) -> None:
        """Run it on the CPU and on the device `place`; what the CPU refuses is not asked.

        The device draws other random numbers than the CPU, as a GPU does: where the CPU drew any,
        shapes and types are compared alone.
        """
        try:
            expected, drew = _on_the_cpu(run, moved)
        except Exception:
            return
        values = not drew
        self.note(question, where, lambda: _compared(expected, run, moved, place, values))

    def ask_at_once(self, where: str, run: Callable[[Any], Any], moved: Move) -> None:
        """Run it in several threads, on the devices in turn; what draws is not asked."""
        try:
            expected, drew = _on_the_cpu(run, moved)
        except Exception:
            return
        if drew:
            return
        on = [f"lab:{i % torch.lab.device_count()}" for i in range(THREADS)]

        def all_of_them() -> str:
            with ThreadPoolExecutor(THREADS) as pool:
                return next(filter(None, pool.map(one, on)), "")

        def one(place: str) -> str:
            return _compared(expected, run, moved, place)

        self.note(AT_ONCE, where, all_of_them)

    def note(self, question: str, where: str, ask: Callable[[], str]) -> None:
        """Count what `ask` finds different, an exception included."""
        try:
            trouble = ask()
        except Exception as error:
            trouble = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        self.add(question, where, trouble)


def _compared(
    expected: list[Any], run: Callable[[Any], Any], moved: Move, place: str, values: bool = True
) -> str:
    """What differs on a device, or where a result is instead of there; "" when nothing does."""
    found = _answer(run, moved(place))
    at = {str(each.device) for each in found if isinstance(each, torch.Tensor)}
    elsewhere = at - {place, "cpu"}
    if elsewhere:
        return f"results on {', '.join(sorted(elsewhere))}, of arguments on {place}"
    return difference(expected, found, values)


def _on_the_cpu(run: Callable[[Any], Any], moved: Move) -> tuple[list[Any], bool]:
    """The CPU's results, and whether it drew random numbers for them.

    It is asked for its results alone: inside a mode some operators, as matrix_rank, leave `out` as
    it is.
    """
    with _Draws() as draws:
        _answer(run, moved("cpu"))
    return _answer(run, moved("cpu")), draws.drew


def _answer(run: Callable[[Any], Any], arguments: Any) -> list[Any]:
    torch.manual_seed(0)
    return list(tree_flatten(run(arguments))[0])


class _Draws(TorchDispatchMode):  # type: ignore[misc]
    """Inside, `drew` becomes True when an operator draws from the CPU's default generator.

    Many of op_db's entries seed it again and put its state back, so it is asked at each operator.
    """

    drew = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator."""
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs or {})
        before = torch.default_generator.get_state()
        result = func(*args, **kwargs or {})
        self.drew |= not torch.equal(before, torch.default_generator.get_state())
        return result


def _moved(sample: Any, index_stays: bool, device: str) -> Any:
    """The sample's tensors on the device, leaves of a graph where they were."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)

    if index_stays:
        return tree_map(move, sample.input), sample.args, sample.kwargs
    return tree_map(move, (sample.input, sample.args, sample.kwargs))


def difference(expected: list[Any], found: list[Any], values: bool = True) -> str:
    """What differs first; "" when nothing does.

    values  False where shapes and types alone are compared
    """
    if len(expected) != len(found):
        return f"{len(found)} results, and the CPU has {len(expected)}"
    for a, b in zip(expected, found, strict=True):
        if not isinstance(a, torch.Tensor):
            if a != b and not (a != a and b != b):
                return f"{b!r}, and the CPU has {a!r}"
            continue
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{b.dtype} {tuple(b.shape)}, and the CPU has {a.dtype} {tuple(a.shape)}"
        if not values:
            continue
        if a.dtype not in (torch.bool, torch.int64):
            try:
                torch.testing.assert_close(
                    b.detach().cpu(), a.detach(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True
                )
            except AssertionError as unequal:
                return " ".join(str(unequal).split())[:300]
        elif not torch.equal(a, b.cpu()):
            return f"{b.cpu().tolist()}, and the CPU has {a.tolist()}"[:300]
    return ""


def ask_about(
    info: Any, where: str, sample: Any, tally: Tally, place: str, at_once: bool = True
) -> None:
    """All questions about one sample of an entry, on one device, and `at_once` on all of them."""
    uninitialised = info.name in UNINITIALISED

    def forward(moved: Any) -> Any:
        result = info.op(moved[0], *moved[1], **moved[2])
        return tree_map(lambda each: each.shape, result) if uninitialised else result

    def backward(moved: Any) -> Any:
        result = forward(moved)
        if sample.output_process_fn_grad is not None:  # of eigenvectors, what their phase leaves
            result = sample.output_process_fn_grad(result)
        outputs = [each for each in tree_flatten(result)[0] if _differentiable(each)]
        inputs = [each for each in tree_flatten(moved)[0] if _differentiable(each)]
        seeds = [torch.linspace(-1, 1, each.numel()).view(each.shape) for each in outputs]
        there = [s.to(each.device, each.dtype) for s, each in zip(seeds, outputs, strict=True)]
        return torch.autograd.grad(outputs, inputs, there, allow_unused=True)

    def in_place(moved: Any) -> Any:
        with torch.no_grad():
            target = moved[0].clone()
            info.get_inplace()(target, *moved[1], **moved[2])
            return target

    def into(moved: Any) -> Any:
        with torch.no_grad():
            made = forward(moved)
            out = tree_map(torch.empty_like, made)
            info.op(moved[0], *moved[1], **moved[2], out=out)
            return out

    moved = partial(_moved, sample, info.name in INDEX_ON_THE_CPU)
    tally.ask("forward", where, forward, moved, place)
    if sample.kwargs.get("out") is not None or uninitialised:
        return
    if at_once:
        tally.ask_at_once(where, backward if info.supports_autograd else forward, moved)
    if info.supports_autograd:
        tally.ask("backward", where, backward, moved, place)
    if info.get_inplace() is not None and not sample.broadcasts_input:
        tally.ask("in place", where, in_place, moved, place)
    if info.supports_out and info.name not in WITHOUT_OUT:
        tally.ask("out=", where, into, moved, place)


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def samples_of(info: Any, limit: int, rng: random.Random) -> list[Any]:
    """Some of the entry's samples, of the first type it takes."""
    dtype = next((each for each in DTYPES if each in info.supported_dtypes("cpu")), None)
    if dtype is None:
        return []
    torch.manual_seed(rng.randrange(1 << 30))
    wants = info.supports_autograd and dtype is torch.float32
    try:
        every = list(info.sample_inputs("cpu", dtype, requires_grad=wants))
    except Exception:  # some entries need SciPy, or a device, to make their samples
        return []
    return rng.sample(every, min(limit, len(every)))


def run(seed: int, size: Size, entries: list[Any] | None = None) -> Tally:
    """Compare the samples that the seed chooses."""
    rng = random.Random(f"torch_device {seed}")
    tally = Tally()
    chosen = op_db() if entries is None else entries
    chosen = [info for info in chosen if not info.name.startswith(SPARSE)]
    if len(chosen) > ENTRIES[size]:
        chosen = rng.sample(chosen, ENTRIES[size])
    for info in chosen:
        for number, sample in enumerate(samples_of(info, SAMPLES[size], rng)):
            tally.entries.add(name_of(info))
            place = f"lab:{number % torch.lab.device_count()}"
            where = f"{name_of(info)}, sample {number}, seed {seed}, on {place}"
            ask_about(info, where, sample, tally, place, size == "full" or not number)
    tally.without = Counter(torch.lab.fallbacks())
    return tally


def _devices() -> str:
    count = torch.lab.device_count()
    return "the device" if count == 1 else f"{count} devices"


def comparisons(tally: Tally) -> list[Comparison]:
    """What is reported of it."""
    computed = ", ".join(f"{name} {count}" for name, count in tally.without.most_common(8))
    detours = f"{len(tally.without)} operators were computed on the host: {computed}, ..."
    notes = (detours,) if tally.without else ()
    return list(tally.results(f"{{}} on {_devices()}", QUESTIONS, notes))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for found in comparisons(run(int(sys.argv[1]), sys.argv[2])):  # type: ignore[arg-type]
        print(json.dumps(asdict(found)), flush=True)
