"""`labkit.ops.iterator.tensor_iterator` against PyTorch's own builder, on random operands."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core import dtype as dtypes
from labkit.core.allocator import DataPtr
from labkit.core.device import CPU
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.iterator.iterator_operand import BINARY, Flags
from labkit.ops.iterator.tensor_iterator import build

NOT_MODELLED: tuple[str, ...] = (
    "iterators over several devices, and 0-dim CPU operands of CUDA kernels",
    "named dimensions, static shapes and squashed dimensions",
    "Python numbers as operands (the builder's binding takes tensors only; see `promotion`)",
)
BUILDS = {"small": 20_000, "full": 1_000_000}
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128",
)  # fmt: skip
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5)
FACTORIES = (
    "binary_op", "binary_op", "binary_float_op", "comparison_op", "unary_op", "unary_float_op",
    "nullary_op", "reduce_op", "linear",
)  # fmt: skip

BINARY_FLOAT = replace(BINARY, promote_integer_inputs_to_float=True)
UNARY = Flags()
NULLARY = Flags(check_all_same_dtype=False, resize_outputs=False)
REDUCE = Flags(
    promote_inputs_to_common_dtype=True,
    resize_outputs=False,
    check_mem_overlap=False,
    is_reduction=True,
)
"""What PyTorch's factories ask of the builder. Source: aten/src/ATen/TensorIterator.cpp."""


def comparison_flags(out: TensorImpl | None) -> Flags:
    """The flags of a comparison: a new output is bool, a given one of another dtype is cast to.

    Source   aten/src/ATen/TensorIterator.cpp  set_up_comparison_op_config
    """
    return Flags(
        promote_inputs_to_common_dtype=True,
        cast_common_dtype_to_outputs=out is not None and out.dtype is not dtypes.bool_,
        static_dtype=dtypes.bool_ if out is None else None,
    )


@dataclass(frozen=True)
class Description:
    """A tensor as `torch.empty(elements, dtype).as_strided(sizes, strides, offset)`.

    storage  descriptions with the same number share memory; same numbers and same sizes, strides
             and offset, at the same place in the program, are one tensor object
    """

    storage: int
    elements: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        return (
            f"s{self.storage}[{self.elements} x {self.dtype}]"
            f".as_strided({self.sizes}, {self.strides}, {self.offset})"
        )


Program = tuple[str, tuple[Description | None, ...], tuple[Description, ...]]


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Yield one comparison: every property of every build, or that both sides refuse."""
    if not hasattr(torch._C, "_TensorIterator"):
        raise RuntimeError(f"torch {torch.__version__} does not bind its builder; 2.13 does")
    rng = random.Random(f"{seed}/iterator")
    tally, refused = Tally(""), 0
    with _silent_stderr():
        for _ in range(BUILDS[size]):
            program = random_program(rng)
            ours, theirs = run_labkit(program), run_torch(program)
            refused += theirs is None
            tally.note("" if ours == theirs else _difference(program, ours, theirs))
    tally.what = f"iterators built (both refuse {refused:,})"
    yield tally.result()


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep file descriptor 2 quiet: PyTorch writes a line there for every output it resizes."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _difference(program: Program, ours: Any, theirs: Any) -> str:
    factory, outputs, inputs = program
    return "\n".join(
        [
            f"    {factory}",
            *[f"      output {output}" for output in outputs],
            *[f"      input  {operand}" for operand in inputs],
            f"      labkit  {ours}",
            f"      PyTorch {theirs}",
        ]
    )


def random_program(rng: random.Random) -> Program:
    """A factory and its operands: broadcast, strided, expanded, aliased or empty."""
    factory = rng.choice(FACTORIES)
    shape = tuple(rng.choice(SIZES) for _ in range(rng.randint(0, 5)))
    count = 1 if factory in ("unary_op", "unary_float_op", "reduce_op") else 2
    same = rng.choice(DTYPES) if rng.random() < 0.5 or factory == "linear" else None
    inputs = []
    for number in range(count):
        dtype = same or rng.choice(DTYPES)
        inputs.append(_random_tensor(rng, number, _thinned(rng, shape), dtype))
    if len(inputs) == 2 and rng.random() < 0.1:
        inputs[1] = inputs[0]
    if factory == "nullary_op":
        return factory, (inputs[0],), ()
    if factory == "reduce_op":
        return _reduction(rng, inputs[0])
    return factory, (_random_output(rng, shape, inputs),), tuple(inputs)


def _thinned(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the other, nearly always."""
    if rng.random() < 0.45:
        return shape
    kept = shape[rng.randint(0, len(shape)) :]
    return tuple(rng.choice((1, size, size)) if rng.random() < 0.97 else 7 for size in kept)


def _random_tensor(
    rng: random.Random, storage: int, sizes: tuple[int, ...], dtype: str
) -> Description:
    """A tensor of these sizes: dense in some order of dimensions, with gaps, or expanded."""
    order = list(range(len(sizes)))
    kind = rng.random()
    if kind < 0.35:
        rng.shuffle(order)
    elif kind < 0.5 and len(sizes) == 4:
        order = [0, 2, 3, 1]
    gap = rng.random() < 0.2
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        if gap:
            step *= rng.choice((1, 1, 2, 3))
        strides[dim] = step
        step *= max(1, sizes[dim])
    for dim, size in enumerate(sizes):
        if rng.random() < 0.06:
            strides[dim] = 0
        elif size == 1 and rng.random() < 0.2:
            strides[dim] = rng.randint(0, 9)
    offset = rng.choice((0, 0, 0, 1, 3))
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    return Description(storage, max(1, last + 1), dtype, sizes, tuple(strides), offset)


def _random_output(
    rng: random.Random, shape: tuple[int, ...], inputs: list[Description]
) -> Description | None:
    kind = rng.random()
    if kind < 0.4:
        return None
    if kind < 0.6:
        return rng.choice(inputs)  # in place
    if kind < 0.68:  # somewhere in the memory of an input
        other = rng.choice(inputs)
        room = max(0, other.elements - 1)
        numbers = tuple(min(size, 2) for size in other.sizes)
        step = tuple(1 if size < 2 else 0 for size in numbers)
        if sum(size > 1 for size in numbers) == 1 and room > 1:
            step = tuple(int(size > 1) for size in numbers)
        return Description(other.storage, other.elements, other.dtype, numbers, step, min(1, room))
    dtype = rng.choice(DTYPES) if rng.random() < 0.6 else inputs[0].dtype
    sizes = shape if rng.random() < 0.75 else tuple(rng.choice(SIZES) for _ in range(2))
    return _random_tensor(rng, len(inputs), sizes, dtype)


def _reduction(rng: random.Random, source: Description) -> Program:
    sizes = tuple(1 if rng.random() < 0.5 else size for size in source.sizes)
    out = _random_tensor(rng, 1, sizes, rng.choice((source.dtype, rng.choice(DTYPES))))
    strides = [
        0 if size == 1 and full != 1 else stride
        for size, full, stride in zip(out.sizes, source.sizes, out.strides, strict=True)
    ]
    return (
        "reduce_op",
        (Description(1, out.elements, out.dtype, sizes, tuple(strides), out.offset),),
        (source,),
    )


def _tensors(
    operands: Sequence[Description | None],
    storage: Callable[[Description], Any],
    view: Callable[[Any, Description], Any],
) -> list[Any]:
    """One tensor per description, over one storage per number; None for None."""
    storages: dict[int, Any] = {}
    made: dict[Description | None, Any] = {}
    for each in operands:
        if each is not None and each not in made:
            if each.storage not in storages:
                storages[each.storage] = storage(each)
            made[each] = view(storages[each.storage], each)
    return [made.get(each) for each in operands]


def run_torch(program: Program) -> Any:
    """What PyTorch's builder makes of it, or None where it refuses."""
    from torch import _tensor_iterator as module

    factory, outputs, inputs = program
    try:
        arguments = _tensors(
            (*outputs, *inputs),
            lambda each: torch.empty(each.elements, dtype=getattr(torch, each.dtype)),
            lambda whole, each: whole.as_strided(each.sizes, each.strides, each.offset),
        )
        if factory == "linear":
            it = module.TensorIterator(
                outputs=arguments[:1], const_inputs=arguments[1:], enforce_linear_iteration=True
            )
        else:
            it = getattr(module, factory)(*arguments)
    except RuntimeError:
        return None
    operands = [
        (tuple(it.strides(i)), _name(it.dtype(i)), tuple(it.tensor(i).shape), it.tensor(i).stride())
        for i in range(it.ntensors)
    ]
    common = None if it.common_dtype is None else _name(it.common_dtype)
    return tuple(it.shape), it.numel, it.is_contiguous, common, operands


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def run_labkit(program: Program) -> Any:
    """What labkit's builder makes of it, or None where it refuses."""
    factory, outputs, inputs = program

    def storage(each: Description) -> Storage:
        nbytes = each.elements * dtypes.dtype(each.dtype).itemsize
        return Storage.from_data_ptr(DataPtr(0, CPU), nbytes)

    def view(whole: Storage, each: Description) -> TensorImpl:
        dtype = dtypes.dtype(each.dtype)
        return TensorImpl(whole, dtype, each.sizes, each.strides, each.offset)

    made = _tensors((*outputs, *inputs), storage, view)
    out, given = made[: len(outputs)], made[len(outputs) :]
    chosen = {
        "binary_op": BINARY,
        "binary_float_op": BINARY_FLOAT,
        "unary_op": UNARY,
        "unary_float_op": BINARY_FLOAT,
        "nullary_op": NULLARY,
        "reduce_op": REDUCE,
        "linear": Flags(enforce_linear_iteration=True),
    }.get(factory) or comparison_flags(out[0])
    try:
        it = build(given, out, chosen)
    except RuntimeError:
        return None
    operands = [
        (tuple(operand.stride_bytes), operand.dtype.name, operand.sizes, operand.strides)
        for operand in it.operands
    ]
    common = None if it.common_dtype is None else it.common_dtype.name
    return tuple(it.shape), it.numel, it.is_contiguous, common, operands
