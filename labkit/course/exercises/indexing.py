"""Indexing: views as arithmetic, shapes of gathers, attention masks, and where NumPy parts."""

import math
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from labkit.course.exercise import Case, Exercise, Hint, Raised, Raises, Rng, Wrong
from labkit.course.exercises._numpy_twin import numpy_twin

NOTEBOOK = "1_fundamentals/4_indexing"

Meta = tuple[tuple[int, ...], tuple[int, ...], int]


# --- basic_index


def _meta(rng: Rng, size: int) -> Meta:
    """Sizes, strides and offset of a view: packed, permuted, stretched or with gaps."""
    rank = 0 if rng.chance(0.08) else rng.randint(1, 1 + min(3, size // 2))
    smallest = 0 if rng.chance(0.15) else 1
    sizes = tuple(rng.randint(smallest, 5) for _ in range(rank))
    strides, step = [0] * len(sizes), 1
    for dim in rng.sample(range(len(sizes)), len(sizes)):
        strides[dim] = 0 if rng.chance(0.08) else step
        step *= max(sizes[dim], 1) + (rng.randint(1, 2) if rng.chance(0.3) else 0)
    return sizes, tuple(strides), rng.choice((0, 0, 1, rng.randint(0, 40)))


def _bound(rng: Rng, length: int) -> int | None:
    return None if rng.chance(0.35) else rng.randint(-length - 2, length + 2)


def _basic_item(rng: Rng, length: int) -> int | slice:
    if rng.chance(0.4):
        far = 1 if rng.chance(0.2) else 0
        return rng.randint(-length - far, length - 1 + far) if length else rng.choice((0, -1))
    step = rng.choice((0, -1, -2)) if rng.chance(0.03) else rng.choice((None, 1, 2, 2, 3))
    return slice(_bound(rng, length), _bound(rng, length), step)


def _some_items(rng: Rng, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Items for some of the axes: from the left, or from both ends around one Ellipsis."""
    left = rng.choice((rng.randint(0, len(sizes)), len(sizes)))
    items: list[Any] = [_basic_item(rng, length) for length in sizes[:left]]
    if rng.chance(0.35):
        left = rng.randint(0, left)
        right = rng.randint(left, len(sizes))
        items[left:] = [Ellipsis, *(_basic_item(rng, length) for length in sizes[right:])]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        items.insert(rng.randint(0, len(items)), None)
    if rng.chance(0.04):
        items += [slice(None, 1)] * (len(sizes) + 1)
    return tuple(items)


def _basic_case(rng: Rng, size: int) -> tuple[Any, ...]:
    meta = _meta(rng, size)
    return (*meta, _some_items(rng, meta[0]))


def _basic(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> Any:
    """What torch makes of it, on a tensor without elements to read."""
    base = torch.empty(0, device="meta").as_strided(sizes, strides, offset)
    try:
        view = base[index]
    except (IndexError, ValueError) as error:
        return Raises(type(error))
    return tuple(view.shape), view.stride(), view.storage_offset()


def _shorter_index(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> Any:
    for at, item in enumerate(index):
        yield sizes, strides, offset, index[:at] + index[at + 1 :]
        if isinstance(item, slice):
            for simpler in (slice(None), slice(item.start, None), slice(None, None, item.step)):
                if simpler != item:
                    yield sizes, strides, offset, (*index[:at], simpler, *index[at + 1 :])
    for dim in range(len(sizes)):
        yield sizes[:dim] + sizes[dim + 1 :], strides[:dim] + strides[dim + 1 :], offset, index
    if offset:
        yield sizes, strides, 0, index


def _shown_index(sizes: Any, strides: Any, offset: int, index: tuple[Any, ...]) -> str:
    return (
        f"sizes {sizes}, strides {strides}, offset {offset}, "
        f"index [{', '.join(map(_shown_item, index)) or '()'}]"
    )


def _shown_item(item: Any) -> str:
    if item is Ellipsis:
        return "..."
    if not isinstance(item, slice):
        return str(item)
    start, stop = ("" if bound is None else str(bound) for bound in (item.start, item.stop))
    return f"{start}:{stop}" + ("" if item.step is None else f":{item.step}")


def _index_of(evidence: Any) -> tuple[Any, ...]:
    return evidence.inputs[3] if evidence.inputs else ()


def _only_offset(evidence: Any) -> bool:
    got, right = evidence.value, evidence.right
    return tuple(map(tuple, got[:2])) == tuple(map(tuple, right[:2])) and got[2] != right[2]


basic_index = Exercise(
    id="indexing.basic_index",
    statement=(
        "Write basic_index(sizes, strides, offset, index): index is a tuple of int, slice, None "
        "and at most one Ellipsis. Return (sizes, strides, offset) of the view, all in elements. "
        "Refuse what torch refuses, with the same class: IndexError for too many indices and for "
        "an int out of range, ValueError for a step below 1. An axis made by None gets the stride "
        "size * stride of the axis it stands before (as that is at that moment), 1 at the end."
    ),
    rules=("pure arithmetic: no torch, no NumPy, no labkit",),
    case=_basic_case,
    expected=_basic,
    smaller=_shorter_index,
    show=_shown_index,
    cases=400,
    sizes=6,
    minutes=25,
    difficulty=3,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "Sizes and strides agree, the offset does not: look at negative starts, and at starts "
            "beyond the end, which are cut off at the size.",
            when=_only_offset,
        ),
        Hint(
            "The index holds an Ellipsis. It stands for as many whole axes as the other items "
            "leave over: none, one or several. None uses up no axis.",
            when=lambda evidence: Ellipsis in _index_of(evidence),
        ),
        Hint(
            "Expected: {expected}. Count the items that use up an axis first (too many is an "
            "IndexError), then work them off from left to right: the first that is wrong decides.",
            when=lambda evidence: isinstance(evidence.right, Raises) or evidence.kind == "raised",
        ),
        Hint(
            "The index holds a None. Its stride is made from the axis that comes next, before the "
            "items after it act on that axis.",
            when=lambda evidence: None in _index_of(evidence),
        ),
        "Normalise the slice against the size before using it.",
        "offset += start*stride, size = ceil((stop-start)/step) and never below 0, stride *= step. "
        "Python's slice.indices(size) does the clamping.",
    ),
    must_fail=(
        "treats Ellipsis as one colon",
        "clamps out-of-range integers",
        "forgets negative starts",
        "step changes stride but not size",
        "None gets stride 0",
        "is right only for square, even or contiguous shapes",
        "remembers the answer of the first random case and returns it for all later cases",
        "catches every exception and returns a default",
    ),
)


# --- advanced_shape

Item = int | slice | tuple[Any, ...]
PATTERNS = ("isa", "asa", "sisa", "sasa", "sasa", "siasa", "sasi", "saia", "isia", "saa", "iasa")
"""Where torch or NumPy may move the gathered axes: a array, i integer, s slice."""


def _gathered(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of an index array that mostly broadcasts against `shape`."""
    cut = shape[rng.randint(0, len(shape)) :] or shape
    return tuple(1 if rng.chance(0.25) else 5 if rng.chance(0.04) else n for n in cut)


def _array_item(rng: Rng, sizes: tuple[int, ...], common: tuple[int, ...]) -> Item:
    """A list, or a mask over the first one or two of `sizes`."""
    if rng.chance(0.65):
        return ("list", _gathered(rng, common))
    over = sizes[: rng.randint(1, min(2, len(sizes)))]
    wanted = common[-1] if rng.chance(0.75) else rng.choice((0, 1, 2))
    return ("mask", over, min(wanted, math.prod(over)))


def _mix(rng: Rng, size: int) -> tuple[tuple[int, ...], tuple[Item, ...]]:
    kinds = list(rng.choice(PATTERNS)) if rng.chance(0.6) else []
    rank = len(kinds) + rng.randint(0 if kinds else 1, 1 + size // 2)
    sizes = tuple(rng.randint(1, 4) for _ in range(rank))
    common = tuple(rng.randint(1, 3) for _ in range(rng.choice((1, 1, 2))))
    items: list[Item] = []
    rest = sizes
    while rest and (kinds or not rng.chance(0.1)):
        kind = kinds.pop(0) if kinds else rng.choice("iissaaa")
        if kind == "i":
            items.append(rng.randint(-rest[0], rest[0] - 1))
        elif kind == "s":
            items.append(slice(rng.choice((None, None, 1)), rng.choice((None, -1)), None))
        else:
            items.append(_array_item(rng, rest, common))
        rest = rest[_axes_used(items[-1]) :]
    return sizes, tuple(items)


def _axes_used(item: Item) -> int:
    return len(item[1]) if isinstance(item, tuple) and item[0] == "mask" else 1


def _real_item(item: Item) -> Any:
    """An item as NumPy takes it; positions are all 0."""
    if not isinstance(item, tuple):
        return item
    if item[0] == "list":
        return np.zeros(item[1], np.int64)
    mask = np.zeros(item[1], bool)
    mask.flat[: item[2]] = True
    return mask


def _both_shapes(sizes: tuple[int, ...], index: tuple[Item, ...]) -> Any:
    """(torch's shape, NumPy's shape) of the result, from real reads."""
    array = np.zeros(sizes, np.int8)
    items = tuple(_real_item(item) for item in index)
    try:
        theirs = torch.from_numpy(array)[
            tuple(torch.from_numpy(i) if isinstance(i, np.ndarray) else i for i in items)
        ]
    except IndexError:
        return Raises(IndexError)
    return tuple(theirs.shape), array[items].shape


def _fewer_items(sizes: tuple[int, ...], index: tuple[Item, ...]) -> Any:
    if index:
        yield sizes, index[:-1]
    if sum(map(_axes_used, index)) < len(sizes):
        yield sizes[:-1], index
    for at, item in enumerate(index):
        if isinstance(item, tuple) and item[0] == "list" and item[1] != (1,):
            yield sizes, (*index[:at], ("list", item[1][1:] or (1,)), *index[at + 1 :])


def _shown_mix(sizes: tuple[int, ...], index: tuple[Item, ...]) -> str:
    return f"sizes {sizes}, index [{', '.join(map(_shown_item, index)) or '()'}]"


def _items(evidence: Any) -> tuple[Any, ...]:
    return evidence.inputs[1] if evidence.inputs else ()


def _has(evidence: Any, kind: str) -> bool:
    return any(isinstance(item, tuple) and item[0] == kind for item in _items(evidence))


def _sides_differ(evidence: Any) -> bool:
    return not isinstance(evidence.right, Raises) and evidence.right[0] != evidence.right[1]


advanced_shape = Exercise(
    id="indexing.advanced_shape",
    statement=(
        "Write advanced_shape(sizes, index): index is a tuple of int, slice (step 1), ('list', "
        "shape of the index array) and ('mask', its shape, how many are True). Return (the shape "
        "torch gives, the shape NumPy gives); they agree when the two are equal. Raise IndexError "
        "when the index arrays do not broadcast."
    ),
    rules=("predict, do not run: no torch, no NumPy, no labkit",),
    case=_mix,
    expected=_both_shapes,
    smaller=_fewer_items,
    show=_shown_mix,
    cases=400,
    sizes=6,
    minutes=25,
    difficulty=4,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "torch and NumPy differ here: {expected}. torch takes integers away before it looks "
            "for gathered axes. For NumPy an integer beside a list is one more index array.",
            when=_sides_differ,
        ),
        Hint(
            "A mask of rank r uses up r axes and yields one, as long as its number of Trues; that "
            "one then broadcasts like any other index array.",
            when=lambda evidence: _has(evidence, "mask"),
        ),
        Hint(
            "Expected: {expected}. The index arrays are broadcast against each other, from the "
            "right; a size other than 1 must be the same in all of them.",
            when=lambda evidence: isinstance(evidence.right, Raises) or evidence.kind == "raised",
        ),
        "Are the advanced indices adjacent in torch's sense? Side by side: the gathered axes stay "
        "in their place. Separated by a slice: they go to the front.",
        "Keep a list of what each remaining axis is, kept (its length) or gathered, once without "
        "the integers for torch and once with them for NumPy. Without any list or mask nothing "
        "is gathered.",
    ),
    must_fail=(
        "always puts gathered axes first",
        "always leaves them in place",
        "treats a mask as one axis whatever its rank",
        "ignores broadcasting between index arrays",
        "returns the literal answer of the example in the statement",
        "remembers the answer of the first random case and returns it for all later cases",
        "reads the expected value out of the checker (module globals, frames or closure)",
    ),
)


# --- causal_mask_adapter

FORMS = ("blocks", "allows", "adds")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def _in_form(blocked: torch.Tensor, form: str, dtype: torch.dtype) -> torch.Tensor:
    if form == "adds":
        return torch.zeros(blocked.shape, dtype=dtype).masked_fill_(blocked, -math.inf)
    return blocked.clone() if form == "blocks" else ~blocked


def _blocked(mask: torch.Tensor, form: str) -> torch.Tensor:
    return mask if form == "blocks" else ~mask if form == "allows" else mask < 0


def _mask_case(rng: Rng, size: int) -> tuple[Any, ...]:
    batch = (rng.randint(1, 3),) if rng.chance(0.6) else ()
    queries, keys = rng.randint(1, 2 + size // 2), rng.randint(1, 2 + size // 2)
    if rng.chance(0.05):
        queries, keys = rng.choice(((0, keys), (queries, 0)))
    blocked = torch.rand((*batch, queries, keys), generator=rng.generator()) < rng.random()
    if rng.chance(0.3):
        blocked |= torch.ones(queries, keys, dtype=torch.bool).triu(1)
    if queries and rng.chance(0.4):
        blocked[..., rng.randint(0, queries - 1), :] = True
    form, wanted = rng.choice(FORMS), rng.choice(FORMS)
    mask = _in_form(blocked, form, rng.choice(FLOATS))
    if rng.chance(0.3):  # the same numbers, walked the other way round
        mask = mask.transpose(-1, -2).contiguous().transpose(-1, -2)
    return mask, form, wanted, rng.choice(FLOATS)


def _attention(mask: torch.Tensor, form: str) -> torch.Tensor:
    """The real call that reads masks of this form, in float64: [batch, query, 2]."""
    batch = mask.shape[0] if mask.dim() == 3 else 1
    noise = torch.Generator().manual_seed(5)
    shape = (batch, max(mask.shape[-2:]), 2)
    query, key = (torch.randn(shape, generator=noise, dtype=torch.float64) for _ in range(2))
    query, key = query[:, : mask.shape[-2]], key[:, : mask.shape[-1]]
    given = mask.double() if mask.is_floating_point() else mask
    if form != "blocks":
        return functional.scaled_dot_product_attention(query, key, key, attn_mask=given)
    one = torch.eye(2, dtype=torch.float64)
    result, _ = functional.multi_head_attention_forward(
        query.transpose(0, 1), key.transpose(0, 1), key.transpose(0, 1), 2, 1,
        one.repeat(3, 1), None, None, None, False, 0.0, one, None,
        need_weights=False, attn_mask=given,
    )  # fmt: skip
    return result.transpose(0, 1)


def _judge_mask(case: Case, got: Any) -> str | Wrong | None:
    mask, form, wanted, dtype = case.inputs
    blocked = _blocked(mask, form)
    full = blocked.all(-1)
    rows = full.nonzero().tolist()
    right = _in_form(blocked, wanted, dtype)
    both = right, rows
    if isinstance(got, Raised):
        return Wrong("the function answers for every mask", both)
    if not isinstance(got, tuple | list) or len(got) != 2 or not isinstance(got[0], torch.Tensor):
        return Wrong("the answer is a pair (mask, rows)", both)
    converted, reported = got
    if converted.layout != torch.strided or converted.device.type != "cpu":
        return Wrong("the mask is a dense tensor on the CPU", both)
    if converted.dtype != right.dtype:
        return Wrong(f"a mask that {wanted} has dtype {right.dtype}", both)
    if converted.shape != right.shape:
        return Wrong(f"the mask keeps its shape {tuple(right.shape)}", both)
    if wanted == "adds" and bool(converted.isnan().any()):
        return Wrong("-inf where blocked, 0 elsewhere, and never NaN", both)
    if mask.numel():
        some = ~full.expand(_batch(mask), -1)
        seen = _attention(converted, wanted)[some]
        meant = _attention(blocked, "blocks")[some]
        if not torch.allclose(seen, meant, rtol=1e-9, atol=1e-12):
            return Wrong("the attention call that reads this form gives the same output", both)
    if not torch.equal(converted, right):
        meaning = "True means what this form says"
        return Wrong("-inf where blocked, 0 elsewhere" if wanted == "adds" else meaning, both)
    if not isinstance(reported, tuple | list) or [list(_row(row)) for row in reported] != rows:
        return Wrong("the fully blocked rows are reported, in order", both)
    return None


def _batch(mask: torch.Tensor) -> int:
    return mask.shape[0] if mask.dim() == 3 else 1


def _row(row: Any) -> tuple[Any, ...]:
    """A row's index; anything that is no sequence of ints matches no row."""
    plain = isinstance(row, tuple | list) and all(type(place) is int for place in row)
    return tuple(row) if plain else (None,)


def _shown_mask(mask: torch.Tensor, form: str, wanted: str, dtype: torch.dtype) -> str:
    return f"mask {mask.tolist()} ({mask.dtype}) that {form}, wanted: one that {wanted}, {dtype}"


def _smaller_mask(mask: torch.Tensor, form: str, wanted: str, dtype: torch.dtype) -> Any:
    for dim in range(mask.dim()):
        if mask.shape[dim] > 1:
            yield mask.narrow(dim, 0, mask.shape[dim] - 1).clone(), form, wanted, dtype
    if mask.dim() == 3 and mask.shape[0] == 1:
        yield mask[0].clone(), form, wanted, dtype


def _property(evidence: Any, text: str) -> bool:
    return text in evidence.property


causal_mask_adapter = Exercise(
    id="indexing.causal_mask_adapter",
    statement=(
        "Write causal_mask_adapter(mask, form, wanted, dtype): mask is [query, key] or [batch, "
        "query, key]. form and wanted are 'blocks' (bool, True is left out: MultiheadAttention), "
        "'allows' (bool, True takes part: scaled_dot_product_attention) or 'adds' (float, -inf is "
        "left out, 0 takes part: both). Return (the mask in the wanted form, rows): dtype is that "
        "of an 'adds' mask, and rows lists the index of every fully blocked row, [query] or "
        "[batch, query], in order. Do not write into the mask you are given."
    ),
    case=_mask_case,
    judge=_judge_mask,
    smaller=_smaller_mask,
    show=_shown_mask,
    cases=150,
    sizes=8,
    minutes=20,
    difficulty=2,
    hints=(
        Hint(
            "One of the two outputs changed: {input}. Is the True of the one form the True of the "
            "other?",
            when=lambda evidence: (
                _property(evidence, "same output") or _property(evidence, "True means")
            ),
        ),
        Hint(
            "A row is fully blocked when no key of it takes part. Its softmax is 0/0, so it must "
            "be reported: with its batch, if there is one, and also when it has no key at all.",
            when=lambda evidence: _property(evidence, "reported"),
        ),
        Hint(
            "An additive mask has the dtype asked for, and exactly two values: 0 and -inf. Mind "
            "that 0 * -inf is NaN, and that the lowest finite number of one dtype is no number "
            "of another.",
            when=lambda evidence: _property(evidence, "dtype") or _property(evidence, "-inf"),
        ),
        "Write down what True means in each call.",
        "-inf where blocked, 0 elsewhere, and all-blocked rows make 0/0. Go through one tensor, "
        "blocked, and make every form from it.",
    ),
    must_fail=(
        "inverts for both",
        "adds 1 instead of minus infinity",
        "returns NaN rows silently",
        "float mask in the wrong dtype",
        "ignores the batch axis",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "remembers the answer of the first random case and returns it for all later cases",
        "returns NaN or an uninitialised buffer where a value is expected",
    ),
)

EXERCISES = (basic_index, advanced_shape, causal_mask_adapter, numpy_twin)
