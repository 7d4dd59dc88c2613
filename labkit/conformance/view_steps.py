"""Random view operations for a tensor of a known shape: mostly right, sometimes wrong on purpose.

Every function takes the state of the tensor it is for (as `labkit.Tensor`) and a generator, and
answers with one `Step`.
"""

import random
from collections.abc import Callable
from typing import Any

import torch

from labkit._tensor import Tensor
from labkit.conformance.sides import Fresh, Step, numeric_dtypes
from labkit.core import dtype as dtypes
from labkit.core.dtype import DTYPES, DType
from labkit.core.memory_format import Ints, MemoryFormat

Maker = Callable[[Tensor, random.Random], Step]
MAX_ELEMENTS = 400  # of one tensor: expand and unfold stop growing here
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6)
WRONG = 0.06  # the share of arguments that are off
NUMERIC = tuple(numeric_dtypes())


def dim(t: Tensor, r: random.Random, extra: int = 0) -> int:
    """A dimension, from either end; now and then one that does not exist."""
    ndim = max(t.dim() + extra, 1)
    if r.random() < WRONG:
        return r.choice((-ndim - 1, ndim, ndim + 2, -ndim - 3))
    return int(r.random() * 2 * ndim) - ndim


def near(value: int, r: random.Random) -> int:
    """The number, or now and then another one close by."""
    return value + r.choice((-2, -1, 1, 2)) if r.random() < WRONG else value


def factors(count: int, r: random.Random) -> list[int]:
    """Sizes that multiply up to `count`, with a one or two among them."""
    sizes: list[int] = []
    rest = count
    while rest > 1 and len(sizes) < 4:
        divisors = [d for d in (2, 3, 4, 5, 6) if rest % d == 0]
        if not divisors or r.random() < 0.25:
            break
        chosen = r.choice(divisors)
        sizes.append(chosen)
        rest //= chosen
    sizes.append(rest)
    while r.random() < 0.25:
        sizes.append(1)
    r.shuffle(sizes)
    return sizes


def new_shape(t: Tensor, r: random.Random) -> Ints:
    """A shape for view and reshape: regrouped neighbours, or a new factorisation."""
    if r.random() < 0.5 and t.dim():
        sizes = list(t.impl.sizes)
        at = int(r.random() * len(sizes))
        if r.random() < 0.5 and len(sizes) > 1 and at + 1 < len(sizes):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            sizes[at : at + 1] = factors(sizes[at], r) if sizes[at] else [0, r.choice((1, 2))]
    elif t.numel() == 0:
        sizes = [r.choice((0, 1, 2, 3)) for _ in range(r.randrange(4))] + [0]
    else:
        sizes = factors(t.numel(), r)
    if sizes and r.random() < 0.3:
        sizes[int(r.random() * len(sizes))] = -1
    if sizes and r.random() < WRONG:
        sizes[int(r.random() * len(sizes))] = r.choice((-1, -2, 0, 2, 7))
    return tuple(sizes)


def sequence(name: str, values: Ints, r: random.Random) -> Step:
    """The step with its numbers one by one, or as one sequence."""
    if values and r.random() < 0.5:
        return Step(name, values)
    return Step(name, (r.choice((tuple, list))(values),))


def view(t: Tensor, r: random.Random) -> Step:
    """`view` or `reshape`."""
    return sequence(r.choice(("view", "reshape", "view")), new_shape(t, r), r)


def permute(t: Tensor, r: random.Random) -> Step:
    """A permutation; now and then with a repeated or missing dimension."""
    order = list(range(t.dim()))
    r.shuffle(order)
    order = [each - t.dim() if r.random() < 0.3 else each for each in order]
    if order and r.random() < WRONG:
        at = int(r.random() * len(order))
        order[at : at + 1] = r.choice(([], [order[0]], [t.dim()], [0, 0]))
    return sequence("permute", tuple(order), r)


def transpose(t: Tensor, r: random.Random) -> Step:
    """Two dimensions change places."""
    return Step("transpose", (dim(t, r), dim(t, r)))


def whole_transposes(t: Tensor, r: random.Random) -> Step:
    """`t`, `T`, `mT`."""
    name = r.choice(("t", "t", "mT", "T"))
    return Step(name, () if name == "t" else None)


def expand(t: Tensor, r: random.Random) -> Step:
    """Ones are stretched, and dimensions added in front."""
    sizes = [
        r.choice((2, 3, 0, 4)) if size == 1 and r.random() < 0.6 else r.choice((-1, size))
        for size in t.impl.sizes
    ]
    sizes = [r.choice((0, 1, 2, 3)) for _ in range(r.choice((0, 0, 1, 1, 2)))] + sizes
    if sizes and r.random() < WRONG:
        sizes[int(r.random() * len(sizes))] = r.choice(
            (5, 0, -1) if 0 in sizes or not t.numel() else (5, -1, -2)
        )
    if sizes and r.random() < WRONG / 2:
        del sizes[0]
    if not t.dim() and 0 in sizes:  # a negative size beside it would not be refused
        sizes = [max(size, 0) for size in sizes]
    total = 1
    for size, old in zip(reversed(sizes), [*reversed(t.impl.sizes), *[1] * 9], strict=False):
        total *= old if size == -1 else size
    if total > MAX_ELEMENTS:
        return Step("unsqueeze", (0,))
    name = "broadcast_to" if r.random() < 0.2 else "expand"
    return Step(name, (tuple(sizes),)) if name != "expand" else sequence(name, tuple(sizes), r)


def squeeze(t: Tensor, r: random.Random) -> Step:
    """All ones, one dimension, or a tuple of them."""
    kind = r.random()
    if kind < 0.3:
        return Step("squeeze")
    if kind < 0.7:
        in_place = r.random() < 0.2
        return Step("squeeze_" if in_place else "squeeze", (dim(t, r),))
    return Step("squeeze", (tuple([dim(t, r) for _ in range(r.randrange(3))]),))


def unsqueeze(t: Tensor, r: random.Random) -> Step:
    """A new dimension of size 1."""
    return Step("unsqueeze", (dim(t, r, extra=1),))


def _along(t: Tensor, r: random.Random) -> tuple[int, int]:
    """A dimension and its size (1 when there is no such dimension)."""
    chosen = dim(t, r)
    exists = t.dim() and -t.dim() <= chosen < t.dim()
    return chosen, t.impl.sizes[chosen] if exists else 1


def select(t: Tensor, r: random.Random) -> Step:
    """One position."""
    chosen, size = _along(t, r)
    return Step("select", (chosen, near(r.randrange(-size, size) if size else 0, r)))


def narrow(t: Tensor, r: random.Random) -> Step:
    """A stretch of positions, sometimes too long."""
    chosen, size = _along(t, r)
    start = r.randrange(-size, size + 1)
    length = r.randrange(size - start + 1) if start >= 0 else r.randrange(-start + 1)
    return Step("narrow", (chosen, near(start, r), near(length, r)))


def slice_(t: Tensor, r: random.Random) -> Step:
    """A slice with bounds that are often outside, and a step that is seldom wrong."""
    chosen, size = _along(t, r)
    bounds = [r.choice((None, r.randrange(-2 * size - 2, 2 * size + 3))) for _ in range(2)]
    step = r.choice((0, -1, -3)) if r.random() < WRONG / 2 else r.choice((1, 1, 1, 2, 3, 7))
    return Step("slice", (chosen, *bounds, step))


def diagonal(t: Tensor, r: random.Random) -> Step:
    """A diagonal of two dimensions, on or off the main one."""
    return Step("diagonal", (r.choice((0, 0, 1, -1, 2, -2, 7, -7)), dim(t, r), dim(t, r)))


def unfold(t: Tensor, r: random.Random) -> Step:
    """Windows along a dimension."""
    chosen, size = _along(t, r)
    window = r.randrange(size + 1)
    if t.numel() * max(window, 1) > MAX_ELEMENTS:
        window = 1
    return Step("unfold", (chosen, near(window, r), near(r.choice((1, 1, 2, 3)), r)))


def as_strided(t: Tensor, r: random.Random) -> Step:
    """Any sizes and strides, mostly inside the storage: overlaps, zeros and gaps included."""
    elements = t.impl.storage().nbytes // t.impl.itemsize
    offset = r.choice((None, 0, 0, r.randrange(elements + 1)))
    room = elements - 1 - (t.impl.storage_offset() if offset is None else offset)
    sizes: list[int] = []
    strides: list[int] = []
    for _ in range(r.randrange(5)):
        size = r.choice(SIZES)
        stride = r.choice((0, 1, 1, 2, 3, 4, 6))
        if size > 1 and stride * (size - 1) > room and r.random() > WRONG:
            stride = r.choice((0, 1)) if size - 1 <= room else 0
        room -= stride * max(size - 1, 0)
        sizes.append(size)
        strides.append(stride)
    if sizes and r.random() < WRONG:
        at = int(r.random() * len(sizes))
        if r.random() < 0.5:
            sizes[at] = 40 if 0 in sizes else r.choice((-1, -3, 40))
        else:
            refused = sizes[at] > 1 and 0 not in sizes  # what overflows later is not modelled
            strides[at] = r.choice((-1, -3, 40, 2**62 if refused else 40))
    if r.random() < WRONG / 2:
        strides.append(1)
    total = 1
    for size in sizes:
        total *= max(size, 1)
    if total > MAX_ELEMENTS:
        return Step("as_strided", ((), ()))
    given = (tuple(sizes), tuple(strides))
    return Step("as_strided", given if offset is None else (*given, near(offset, r)))


def flatten(t: Tensor, r: random.Random) -> Step:
    """Several dimensions as one."""
    return r.choice((Step("flatten"), Step("flatten", (dim(t, r), dim(t, r))), Step("ravel")))


def pieces(t: Tensor, r: random.Random) -> Step:
    """Any of the operations with several results."""
    chosen, size = _along(t, r)
    kind = r.randrange(5)
    if kind == 0:
        return Step("split", (near(r.choice((1, 2, 3, size)), r), chosen))
    if kind == 1:
        return Step("chunk", (near(r.choice((1, 2, 3, 7)), r), chosen))
    if kind == 2:
        cut = r.randrange(size + 1)
        name = r.choice(("split", "split_with_sizes"))
        return Step(name, (r.choice(([cut, near(size - cut, r)], [size])), chosen))
    return Step("unbind", (chosen,))


def reinterpret(t: Tensor, r: random.Random) -> Step:
    """The same bytes as another type; never as bool, whose other bytes mean nothing."""
    kind = r.random()
    if kind < 0.6:
        targets = [each for each in DTYPES.values() if each.kind != "bool"]
        same = [t.dtype] * 2
        return Step("view", (r.choice(targets + same),))
    name = r.choice(("real", "imag", "view_as_real", "view_as_complex"))
    return Step(name, None if name in ("real", "imag") else ())


FORMATS = tuple(MemoryFormat)


def copies(t: Tensor, r: random.Random) -> Step:
    """Clone and contiguous in every memory format, and other ways to the same elements."""
    kind = r.randrange(6)
    if kind == 0:
        return Step("contiguous", (), (("memory_format", r.choice(FORMATS)),))
    if kind == 1:
        return Step("clone", (), (("memory_format", r.choice(FORMATS)),))
    if kind == 2:
        return Step("to", (t.dtype,), (("memory_format", r.choice(FORMATS)),))
    return r.choice((Step("contiguous"), Step("clone"), Step("detach"), Step("data", None)))


def mistyped(t: Tensor, r: random.Random) -> Step:
    """An argument of a class no operation takes."""
    named = hasattr(torch.Tensor, "refine_names")  # before 2.13 a word is a dimension's name
    wrong = r.choice((1.5, None, True) if named else (1.5, "a", None, True))
    name, count = r.choice((
        ("transpose", 2), ("select", 2), ("narrow", 3), ("unsqueeze", 1), ("permute", 1),
        ("unfold", 3), ("expand", 1), ("reshape", 1), ("chunk", 1), ("flatten", 2),
    ))  # fmt: skip
    arguments: list[Any] = [0] * count
    arguments[r.randrange(count)] = wrong
    return Step(name, tuple(arguments))


MAKERS: tuple[tuple[int, Maker], ...] = (
    (10, view), (5, permute), (6, transpose), (4, whole_transposes), (6, expand),
    (5, squeeze), (5, unsqueeze), (6, select), (5, narrow), (7, slice_), (5, diagonal),
    (5, unfold), (7, as_strided), (3, flatten), (6, pieces), (5, reinterpret),
    (3, copies), (1, mistyped),
)  # fmt: skip
_WEIGHTED = [maker for weight, maker in MAKERS for _ in range(weight)]


def random_step(t: Tensor, r: random.Random) -> Step:
    """One operation for the tensor as it is now."""
    return _WEIGHTED[int(r.random() * len(_WEIGHTED))](t, r)


def conversion_target(source: DType, r: random.Random) -> DType:
    """A type whose conversion from `source` C++ defines for every value a program can hold."""
    if source.is_complex:
        return r.choice((dtypes.complex64, dtypes.complex128))
    if source.is_floating_point:
        targets = [each for each in DTYPES.values() if each.is_inexact]
        return r.choice([*targets, dtypes.int32, dtypes.int64])
    return r.choice(tuple(DTYPES.values()))


def mutation(t: Tensor, r: random.Random, clean: bool, shows_once: bool) -> Step:
    """An in-place write.

    clean       no bytes have been reinterpreted, so every element is a small number
    shows_once  no element is shown twice, so the order of reads and writes cannot matter
    """
    kind = r.random()
    if clean and shows_once and kind < 0.35 and t.dtype in NUMERIC:
        return r.choice((Step("add_", (r.randrange(1, 4),)), Step("mul_", (2,))))
    if (shows_once and kind < 0.7) or t.numel() == 0:
        sizes = [1 if r.random() < 0.2 else size for size in t.impl.sizes][r.randrange(2) :]
        if sizes and r.random() < WRONG:
            sizes = [sizes[0] + 1, *sizes]
        dtype = r.choice(tuple(DTYPES.values())) if r.random() < 0.3 else t.dtype
        if not clean and dtype is not t.dtype:
            dtype = t.dtype
        if dtype.is_complex and not t.is_complex():
            dtype = t.dtype
        return Step("copy_", (Fresh(tuple(sizes), dtype),))
    return r.choice((Step("fill_", (r.choice((0, 1, 2)),)), Step("zero_")))
