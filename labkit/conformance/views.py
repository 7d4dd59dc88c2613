"""labkit's view operations against PyTorch's: the same random chain on both."""

import random
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from labkit._tensor import Tensor
from labkit.conformance import view_steps
from labkit.conformance.report import Comparison, Size
from labkit.conformance.sides import (
    Different,
    Step,
    as_tuple,
    both_refuse,
    expect_same,
    expect_same_values,
    modulus,
    pair,
    program,
    run_labkit,
    run_torch,
)
from labkit.core.dtype import DTYPES, DType
from labkit.core.memory_format import channels_last_strides, contiguous_strides

NOT_MODELLED: tuple[str, ...] = (
    "the wording of most error messages: the class of the exception is compared",
    "lazy conjugate and negative bits: conj()",
    "as_strided and expand with a negative size beside a size of 0: PyTorch lets it through",
    "sums of strides and offsets beyond 63 bits, which only tensors without elements can have",
    "view(torch.bool) of bytes that are neither 0 nor 1",
    "the order of reads and writes when a write shows one element twice in a way PyTorch does not "
    "detect, and arithmetic on reinterpreted bytes (NaN payloads, overflow to integers)",
    "float8, float4_e2m1fn_x2, quantized, sparse, nested and symbolic tensors, names, autograd",
)
CHAINS = {"small": 6_000, "full": 300_000}
LONGEST = 8  # steps
ELEMENT_TYPES = tuple(DTYPES.values())


@dataclass
class Chain:
    """One random program while it runs on both sides."""

    seed: str
    elements: int
    dtype: DType
    steps: list[str] = field(default_factory=list)
    tensors: list[tuple[torch.Tensor, Tensor]] = field(default_factory=list)
    clean: bool = True

    def program(self, found: str) -> str:
        """The chain so far as a program for either module, and what it answered."""
        counting = f"(m.arange({self.elements}) % {modulus(self.dtype)}).to(m.{self.dtype.name})"
        return program(f"chain {self.seed}", [f"x = {counting}", *self.steps], found)


def compare(seed: int, size: Size, **options: str) -> Iterator[Comparison]:
    """Run random view chains on both sides and compare every step and every byte.

    Each chain has a generator of its own, so one chain can be repeated alone.
    """
    counts: Counter[str] = Counter()
    first_difference = None
    chains = int(options.get("chains", CHAINS[size]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(chains):
            chain = _start(f"{seed}:{number}")
            try:
                _run(chain, random.Random(chain.seed), counts)
                counts["chains equal"] += 1
            except Different as found:
                first_difference = first_difference or chain.program(str(found))
    equal = counts["chains equal"]
    yield Comparison("view chains", chains, equal, first_difference)
    refused = counts["refused"]
    yield Comparison(
        f"their steps ({refused:,} refused by both)", counts["steps"], counts["equal steps"]
    )
    yield Comparison("their writes", counts["writes"], counts["equal writes"])
    yield Comparison(
        "their tensors, metadata and bytes at the end", counts["tensors"], counts["equal tensors"]
    )


def _start(seed: str) -> Chain:
    r = random.Random(f"start {seed}")
    return Chain(seed, r.choice((0, 1, 2, 6, 24, 24, 36, 60, 120)), r.choice(ELEMENT_TYPES))


def _first_layout(elements: int, r: random.Random) -> Step:
    """A shape to begin with: plain, transposed, channels-last, or with gaps."""
    shapes = {
        24: ((2, 3, 4), (2, 3, 2, 2), (4, 6), (1, 4, 3, 2), (24,)),
        36: ((3, 3, 4), (2, 3, 3, 2), (6, 6), (2, 3, 1, 3, 2)),
        60: ((3, 4, 5), (1, 3, 4, 5), (5, 12), (2, 5, 1, 2, 3)),
        120: ((2, 3, 4, 5), (1, 2, 3, 4, 5), (10, 12), (4, 5, 6)),
        6: ((2, 3), (3, 2), (1, 6, 1), (6,)),
    }
    sizes = r.choice(shapes.get(elements, ((elements,), (1, elements))))
    if len(sizes) in (4, 5) and r.random() < 0.5:
        return Step("as_strided", (sizes, channels_last_strides(sizes)))
    return Step("as_strided", (sizes, contiguous_strides(sizes)))


def _run(chain: Chain, r: random.Random, counts: Counter[str]) -> None:
    roots = pair(chain.elements, chain.dtype)
    chain.tensors.append(roots)
    current = roots
    if r.random() < 0.8:
        current = _apply(chain, current, _first_layout(chain.elements, r), r, counts)
    for _ in range(r.randrange(1, LONGEST)):
        if r.random() < 0.12:
            _write(chain, current, r, counts)
        else:
            step = _choose(chain, current[1], r)
            current = _apply(chain, current, step, r, counts)
    for theirs, ours in chain.tensors:  # versions and values change through views
        counts["tensors"] += 1
        expect_same(theirs, ours, chain.tensors[0])
        expect_same_values(theirs, ours)
        counts["equal tensors"] += 1


def _choose(chain: Chain, current: Tensor, r: random.Random) -> Step:
    if chain.clean and r.random() < 0.03:
        return Step("to", (view_steps.conversion_target(current.dtype, r),))
    step = view_steps.random_step(current, r)
    if step.name == "view" and step.arguments and isinstance(step.arguments[0], DType):
        chain.clean = False
    return step


def _apply(
    chain: Chain,
    current: tuple[torch.Tensor, Tensor],
    step: Step,
    r: random.Random,
    counts: Counter[str],
) -> tuple[torch.Tensor, Tensor]:
    """The tensors to go on with: one of the results, or the old ones after a refusal."""
    chain.steps.append(f"y = {step}")
    theirs, ours = run_torch(current[0], step), run_labkit(current[1], step)
    counts["steps"] += 1
    if both_refuse(theirs, ours):
        counts["refused"] += 1
        counts["equal steps"] += 1
        chain.steps[-1] = f"# both refuse {step} with {type(theirs).__name__}"
        return current
    results = list(zip(as_tuple(theirs), as_tuple(ours), strict=True))
    for their, our in results:
        expect_same(their, our, chain.tensors[0])
        if (their is current[0]) != (our is current[1]):
            raise Different(
                f"  is the tensor itself: torch {their is current[0]}, labkit {our is current[1]}"
            )
    counts["equal steps"] += 1
    if not results:
        return current
    chosen = r.randrange(len(results))
    several = isinstance(theirs, tuple | list)
    chain.steps[-1] = f"x = ({step})[{chosen}]" if several else f"x = {step}"
    chain.tensors.append(results[chosen])
    return results[chosen]


def _write(
    chain: Chain, current: tuple[torch.Tensor, Tensor], r: random.Random, counts: Counter[str]
) -> None:
    once = _shows_every_element_once(current[1])
    step = view_steps.mutation(current[1], r, chain.clean, once)
    chain.steps.append(str(step))
    theirs, ours = run_torch(current[0], step), run_labkit(current[1], step)
    counts["writes"] += 1
    both_refuse(theirs, ours)
    counts["equal writes"] += 1


def _shows_every_element_once(tensor: Tensor) -> bool:
    reached = np.zeros(tensor.impl.sizes, np.int64)
    for dim, stride in enumerate(tensor.impl.strides):
        steps = np.arange(tensor.impl.sizes[dim]) * stride
        reached += steps.reshape(-1, *[1] * (tensor.dim() - 1 - dim))
    return len(np.unique(reached)) == reached.size
