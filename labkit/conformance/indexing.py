"""labkit's indexing against PyTorch's: random reads and writes through every kind of index."""

import random
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from labkit._tensor import Tensor
from labkit.conformance.index_expressions import (
    Expression,
    TensorItem,
    labkit_item,
    torch_item,
    value_shape,
)
from labkit.conformance.report import Comparison, Size
from labkit.conformance.sides import (
    Different,
    Fresh,
    Step,
    both_refuse,
    expect_same,
    expect_same_values,
    modulus,
    on_labkit,
    on_torch,
    outcome,
    pair,
    program,
    run_labkit,
    run_torch,
    text_of,
)
from labkit.core.dtype import DTYPES, DType
from labkit.core.memory_format import channels_last_strides, contiguous_strides
from labkit.ops.indexing.advanced_indexing import MASKS

NOT_MODELLED: tuple[str, ...] = (
    "the wording of most error messages: the class of the exception is compared",
    "what a refused write leaves behind: PyTorch has by then written the positions before the "
    "first one outside",
    "which operators PyTorch has no kernel for (index_put_ on uint16, uint32 and uint64): "
    "labkit has one for all",
    "the one-byte floats (float8), which labkit leaves out",
    "index_put_ through a 0-dim mask, where PyTorch fails an assertion of its own",
    "a slice with an end, beyond the last dimension (after a second Ellipsis, or after lists of "
    "bools that count as one item), where PyTorch reads past its list of sizes",
    "warnings (uint8 masks, writes to expanded tensors, lists that count as tuples)",
    "a write whose value or index shares memory with the tensor in a way PyTorch does not detect",
    "named indices, sparse, quantized and nested tensors, autograd",
)
EXPRESSIONS = {"small": 6_000, "full": 120_000}
READ_TYPES = tuple(DTYPES.values())
WRITE_TYPES = tuple(each for each in READ_TYPES if each.name not in ("uint16", "uint32", "uint64"))
SHAPES = (
    (), (1,), (3,), (5,), (0,), (2, 3), (4, 1), (3, 4), (0, 3), (2, 0), (2, 3, 4), (3, 1, 2),
    (1, 1, 1), (4, 4, 2), (2, 0, 3), (2, 3, 2, 2), (3, 2, 1, 4), (1, 3, 3, 2), (2, 2, 2, 2, 2),
)  # fmt: skip


class Case:
    """One expression on one tensor, on both sides, and the program that repeats it."""

    def __init__(self, seed: str) -> None:
        self.r = r = random.Random(seed)
        self.seed = seed
        self.writes = r.random() < 0.45
        self.dtype: DType = r.choice(WRITE_TYPES if self.writes else READ_TYPES)
        sizes = r.choice(SHAPES)
        self.elements = max(1, int(torch.Size(sizes).numel()))
        self.lines = [
            f"x = (m.arange({self.elements}) % {modulus(self.dtype)}).to(m.{self.dtype.name})"
        ]
        self.roots = pair(self.elements, self.dtype)
        strides = contiguous_strides(sizes)
        if len(sizes) in (4, 5) and r.random() < 0.4:
            strides = channels_last_strides(sizes)
        self.current: tuple[torch.Tensor, Tensor] = self.roots
        self._step(Step("as_strided", (sizes, strides)))
        for _ in range(r.randrange(3)):
            self._step(self._layout())

    def _layout(self) -> Step:
        r, t = self.r, self.current[1]
        if t.dim() > 1 and r.random() < 0.6:
            order = list(range(t.dim()))
            r.shuffle(order)
            return Step("permute", (tuple(order),))
        if t.dim() and r.random() < 0.6:
            return Step(
                "slice", (r.randrange(t.dim()), r.choice((None, 1)), None, r.choice((1, 2)))
            )
        if 1 in t.impl.sizes and t.numel() < 40 and r.random() < 0.5:
            return Step("expand", tuple([3 if size == 1 else size for size in t.impl.sizes]))
        return Step("unsqueeze", (r.randrange(t.dim() + 1),))

    def _step(self, step: Step) -> None:
        self.lines.append(f"x = {step}")
        theirs, ours = run_torch(self.current[0], step), run_labkit(self.current[1], step)
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            raise Different(f"  torch: {outcome(theirs)}\n  labkit: {outcome(ours)}")
        self.current = theirs, ours

    def program(self, found: str) -> str:
        """The case as a program for either module, and what it answered."""
        return program(f"case {self.seed}", self.lines, found)

    def run(self, counts: Counter[str]) -> None:
        """Ask both sides and compare.

        Raises   Different   they disagree
        """
        item = Expression(self.current[1].impl.sizes, self.r).item()
        if self.writes:
            self._write(item, counts)
        else:
            self._read(item, counts)

    def _read(self, item: Any, counts: Counter[str]) -> None:
        self.lines.append(f"y = x[{item!r}]")
        theirs = _attempt(self.current[0].__getitem__, torch_item(item))
        ours = _attempt(self.current[1].__getitem__, labkit_item(item))
        counts["reads"] += 1
        if both_refuse(theirs, ours):
            counts["refused reads"] += 1
            counts["equal reads"] += 1
            return
        expect_same(theirs, ours, self.roots)
        expect_same_values(theirs, ours)
        counts["views"] += ours.impl.is_alias_of(self.roots[1].impl)
        counts["equal reads"] += 1

    def _write(self, item: Any, counts: Counter[str]) -> None:
        value = self._value(item)
        if self._as_index_put(item):
            theirs, ours = self._index_put(item, value)
        else:
            self.lines.append(f"x[{item!r}] = {text_of(value)}")
            theirs = _attempt(self.current[0].__setitem__, torch_item(item), on_torch(value))
            ours = _attempt(self.current[1].__setitem__, labkit_item(item), on_labkit(value))
        counts["writes"] += 1
        if both_refuse(theirs, ours):
            counts["refused writes"] += 1
            counts["equal writes"] += 1
            return
        versions = self.roots[0]._version, self.roots[1]._version
        if versions[0] != versions[1]:
            raise Different(f"  version: torch {versions[0]}, labkit {versions[1]}")
        expect_same_values(*self.roots, "storage")
        counts["equal writes"] += 1

    def _value(self, item: Any) -> Any:
        r = self.r
        if r.random() < 0.4:
            choices = (0, 1, 2, 2.5, True, 1 + 0j, -1, 3, 300, 1e6, float("inf"), None, [1], 2j)
            return r.choice(choices) if r.random() < 0.4 else r.choice((0, 1, True))
        read = _attempt(self.current[1].__getitem__, labkit_item(item))
        sizes = (1,) if isinstance(read, Exception) else read.impl.sizes
        dtype = r.choice(WRITE_TYPES) if r.random() < 0.05 else self.dtype
        if dtype.is_complex and not self.dtype.is_complex:
            dtype = self.dtype
        return Fresh(value_shape(sizes, r), dtype)

    def _as_index_put(self, item: Any) -> bool:
        items = item if isinstance(item, tuple) else (item,)
        return bool(items) and all(
            isinstance(each, TensorItem) and (each.sizes or each.dtype not in MASKS)
            for each in items
        )

    def _index_put(self, item: Any, value: Any) -> tuple[Any, Any]:
        items = item if isinstance(item, tuple) else (item,)
        if not isinstance(value, Fresh):
            value = Fresh((), self.dtype)
        accumulate = self.r.random() < 0.5
        self.lines.append(f"x.index_put_({items!r}, {text_of(value)}, {accumulate})")
        theirs = _attempt(
            self.current[0].index_put_, torch_item(items), on_torch(value), accumulate
        )
        ours = _attempt(
            self.current[1].index_put_, labkit_item(items), on_labkit(value), accumulate
        )
        return theirs, ours


def _attempt(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return error


def compare(seed: int, size: Size, **options: str) -> Iterator[Comparison]:
    """Run random index expressions on both sides and compare results, storages and versions."""
    counts: Counter[str] = Counter()
    first_difference = None
    equal = 0
    expressions = int(options.get("expressions", EXPRESSIONS[size]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(expressions):
            case = Case(f"{seed}:{number}")
            try:
                case.run(counts)
                equal += 1
            except Different as found:
                first_difference = first_difference or case.program(str(found))
    yield Comparison("index expressions", expressions, equal, first_difference)
    yield Comparison(
        f"their reads ({counts['views']:,} views, {counts['refused reads']:,} refused by both)",
        counts["reads"],
        counts["equal reads"],
    )
    yield Comparison(
        f"their writes ({counts['refused writes']:,} refused by both)",
        counts["writes"],
        counts["equal writes"],
    )
