"""PyTorch's own samples of every operator: values, gradients, graphs and second gradients.

Source   torch/testing/_internal/common_methods_invocations.py  op_db
"""

import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map

import labkit as lab
from labkit.conformance.autograd import graphs
from labkit.conformance.autograd.lockstep import Lockstep, Unequal, Unsupported, twin_of
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Answers
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy

SAMPLES = {"small": 2, "full": 1_000}
"""Samples taken of each entry, at random."""
OPERATORS = {"small": 60, "full": 10_000}
"""Entries taken, at random."""
TOLERANCE = 1e-7
"""Relative, and absolute for numbers below 1: float64 sums in another order."""
WRONG_IN_TORCH = {"as_strided_scatter"}
"""Entries whose gradient PyTorch 2.13 itself gets wrong: it passes on what was overwritten."""
_READABLE = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
UNINITIALISED = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"
}  # fmt: skip
"""Entries that answer whatever the memory held: their numbers are not compared."""
QUESTIONS = ("values", "graphs", "gradients", "second gradients")


class Tally(Answers):
    """The answers, and what labkit says that it does not do."""

    def __init__(self) -> None:
        super().__init__()
        self.unsupported: dict[str, str] = {}


def compare(seed: int, size: Size, only: str = "") -> Iterator[Comparison]:
    """One comparison per question, over samples chosen by the seed.

    only   the name of one entry, "nn.functional.relu"
    """
    tally = run(seed, size, only)
    count, whole = len(tally.unsupported), ", ".join(sorted(tally.unsupported))
    left_out = (f"{count} entries: {whole}",) if count else ()
    yield from tally.results("operators' {}", QUESTIONS, left_out)


def run(seed: int, size: Size, only: str = "") -> Tally:
    """Compare the samples; see `compare`."""
    rng = random.Random(f"op_db {seed}")
    tally = Tally()
    entries = [info for info in op_db() if not only or name_of(info) == only]
    if len(entries) > OPERATORS[size]:
        entries = rng.sample(entries, OPERATORS[size])
    for info in entries:
        for number, sample in _samples(info, rng, SAMPLES[size]):
            _compare_sample(info, number, sample, seed, tally)
    return tally


def name_of(info: Any) -> str:
    """The entry's name, with its variant: "var_mean.unbiased"."""
    return f"{info.name}.{info.variant_test_name}".rstrip(".")


def op_db() -> list[Any]:
    """PyTorch's table of operators and their samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db as entries
    return list(entries)


def seed_samples(seed: int) -> None:
    """Every generator that `samples_of` draws from starts over."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats the stack per device
    np.random.seed(seed)  # noqa: NPY002  what the entries draw from
    random.seed(seed)


def samples_of(info: Any, dtype: torch.dtype, requires_grad: bool = False) -> Iterator[Any]:
    """The entry's samples on the CPU, from the generators as they stand.

    Differs  `info.sample_inputs` starts every generator over before each sample, always from one
             seed, and walks the stack each time for a unittest to tell: milliseconds a sample.
    """
    yield from info.sample_inputs_func(info, "cpu", dtype, requires_grad)


def _samples(info: Any, rng: random.Random, limit: int) -> list[tuple[int, Any]]:
    """Some of the entry's samples, with their numbers; the same tensors at every call."""
    seed_samples(rng.randrange(1 << 30))
    dtypes = info.supported_dtypes("cpu")
    dtype = next(
        (each for each in (torch.float64, torch.int64, torch.bool) if each in dtypes), None
    )
    if dtype is None:
        return []
    wants = info.supports_autograd and dtype is torch.float64
    try:
        every = list(samples_of(info, dtype, requires_grad=wants))
    except Exception:  # some entries need SciPy, or a device, to make their samples
        return []
    numbered = list(enumerate(every))
    return sorted(rng.sample(numbered, limit)) if len(numbered) > limit else numbered


def _compare_sample(info: Any, number: int, sample: Any, seed: int, tally: Tally) -> None:
    name = name_of(info)
    where = f"{name}, sample {number} at seed {seed}: {_described(sample)}"
    step = Lockstep()
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _ask(info, sample, step, where, tally)
        except Unsupported as reason:
            tally.unsupported.setdefault(name, str(reason))
            return
        except Unequal as reason:
            tally.add("values", where, str(reason))
        except Exception as error:
            if not step.calls:  # the entry cannot run here at all
                tally.unsupported.setdefault(name, f"{type(error).__name__}: {error}")
                return
            if not step.refused:
                raise
            tally.add("values", where, "")  # both refuse it
    tally.entries.add(name)


def _ask(info: Any, sample: Any, step: Lockstep, where: str, tally: Tally) -> None:
    leaves = [
        each
        for each in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        if isinstance(each, torch.Tensor)
    ]
    twins = [step.twin(leaf) for leaf in leaves]
    with step:
        result = info.op(sample.input, *sample.args, **sample.kwargs)
        if sample.output_process_fn_grad is not None:
            result = sample.output_process_fn_grad(result)
    outputs = [each for each in tree_flatten(result)[0] if isinstance(each, torch.Tensor)]
    ours: list[Any] = [step.twin(output) for output in outputs]
    differs = metadata_difference if info.name in UNINITIALISED else tensor_difference
    tally.add("values", where, _first(map(differs, outputs, ours)))
    graph = graphs.graph(outputs, leaves), graphs.graph(ours, twins)
    if _has_gap(graph[1]) and not _has_gap(graph[0]):
        raise Unsupported("an operator of it has no derivative in labkit")
    if any(output.requires_grad for output in outputs) or any(o.requires_grad for o in ours):
        tally.add("graphs", where, graphs.difference(*graph))
    _ask_gradients(info, leaves, twins, outputs, ours, where, tally)


def _has_gap(graph: tuple[list[graphs.Row], list[int]]) -> bool:
    return any(name == "NotImplemented" for name, _ in graph[0])


def _ask_gradients(
    info: Any,
    leaves: Sequence[torch.Tensor],
    twins: Sequence[Any],
    outputs: Sequence[torch.Tensor],
    ours: Sequence[Any],
    where: str,
    tally: Tally,
) -> None:
    chosen = [i for i, output in enumerate(outputs) if output.requires_grad]
    wanted = [i for i, leaf in enumerate(leaves) if leaf.requires_grad]
    if info.name in WRONG_IN_TORCH:
        return
    if not chosen or not wanted or any(not ours[i].requires_grad for i in chosen):
        return
    cotangents = [torch.randn_like(outputs[i]) for i in chosen]
    twice = info.supports_gradgrad
    theirs = torch.autograd.grad(
        [outputs[i] for i in chosen], [leaves[i] for i in wanted], cotangents,
        create_graph=twice, allow_unused=True,
    )  # fmt: skip
    mine = _our_gradients(
        [ours[i] for i in chosen], [twins[i] for i in wanted], cotangents, twice,
        where, "gradients", tally,
    )  # fmt: skip
    if mine is None:
        return
    tally.add("gradients", where, _first(map(tensor_difference, theirs, mine)))
    again = [
        i for i, each in enumerate(theirs)
        if each is not None and each.requires_grad and mine[i] is not None
    ]  # fmt: skip
    if not twice or not again or not all(mine[i].requires_grad for i in again):
        return
    seconds = [torch.randn_like(theirs[i]) for i in again]
    try:
        second = torch.autograd.grad(
            [theirs[i] for i in again], [leaves[i] for i in wanted], seconds, allow_unused=True
        )
    except RuntimeError:  # not every derivative has one
        return
    ours_again = _our_gradients(
        [mine[i] for i in again], [twins[i] for i in wanted], seconds, False,
        where, "second gradients", tally,
    )  # fmt: skip
    if ours_again is not None:
        tally.add("second gradients", where, _first(map(tensor_difference, second, ours_again)))


def _our_gradients(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cotangents: Sequence[torch.Tensor],
    create_graph: bool,
    where: str,
    question: str,
    tally: Tally,
) -> Any:
    """Labkit's gradients; None, and counted, where it says that it has none or fails."""
    try:
        return lab.autograd.grad(
            outputs, inputs, [twin_of(each) for each in cotangents],
            create_graph=create_graph, allow_unused=True,
        )  # fmt: skip
    except NotImplementedError as refusal:
        name = where.partition(",")[0]
        tally.unsupported.setdefault(f"{name} ({question})", str(refusal).partition("\n")[0])
    except Exception as error:
        tally.add(question, where, f"labkit raises {type(error).__name__}: {error}")
    return None


def metadata_difference(theirs: torch.Tensor, ours: Any) -> str:
    """What labkit's tensor has otherwise, its numbers aside."""
    mine = ours.dtype.name, ours.sizes, ours.strides, ours.requires_grad
    dtype = str(theirs.dtype).rpartition(".")[2]
    seen = dtype, tuple(theirs.shape), tuple(theirs.stride()), theirs.requires_grad
    return "" if seen == mine else f"torch {seen}, labkit {mine}"


def tensor_difference(theirs: torch.Tensor | None, ours: TensorImpl | None) -> str:
    """What labkit's tensor has otherwise: type, shape, strides, `requires_grad`, values."""
    if theirs is None or ours is None:
        both = theirs is None and ours is None
        return "" if both else f"torch {theirs}, labkit {ours}"
    if str(theirs.dtype).rpartition(".")[2] != ours.dtype.name:
        return f"torch answers {theirs.dtype}, labkit {ours.dtype}"
    if tuple(theirs.shape) != ours.sizes:
        return f"torch answers shape {tuple(theirs.shape)}, labkit {ours.sizes}"
    if theirs.requires_grad != ours.requires_grad:  # type: ignore[attr-defined]
        return f"torch answers requires_grad={theirs.requires_grad}, labkit otherwise"
    plain = theirs.detach().resolve_conj().resolve_neg()
    if plain._is_zerotensor():
        plain = torch.zeros(plain.shape, dtype=plain.dtype)
    wanted = plain.to(_READABLE.get(plain.dtype, plain.dtype)).numpy()
    found = copy.values(ours)
    if wanted.dtype.kind in "fc":
        same = np.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    else:
        same = np.array_equal(found, wanted)
    if same:
        return ""
    return (
        f"torch {wanted.ravel()[:5]}..., labkit {np.asarray(found).ravel()[:5]}... at {ours.sizes}"
    )


def _first(texts: Any) -> str:
    return next((text for text in texts if text), "")


def _described(sample: Any) -> str:
    def short(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return f"tensor{list(value.shape)}" + ("" if value.requires_grad else " (no grad)")
        return value

    shown = tree_map(short, (sample.input, sample.args, sample.kwargs))
    text = repr(shown)
    return text if len(text) < 300 else text[:297] + "..."
