import math

import torch

from labkit.course.checks import failing_cases
from labkit.course.exercise import Hint
from tests.course.answers import Answers

answers = Answers("strides")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- the view machine


def wrap(dim, ndim):
    ndim = max(ndim, 1)
    refuse(not -ndim <= dim < ndim, IndexError, f"dimension {dim} of {ndim}")
    return dim % ndim


def refuse(wrong, error, message):
    if wrong:
        raise error(message)


def without(values, dim):
    return values[:dim] + values[dim + 1 :]


def reordered(sizes, strides, offset, order):
    return tuple(sizes[d] for d in order), tuple(strides[d] for d in order), offset


def transpose(sizes, strides, offset, dim0, dim1):
    dim0, dim1 = wrap(dim0, len(sizes)), wrap(dim1, len(sizes))
    swapped = {dim0: dim1, dim1: dim0}
    return reordered(sizes, strides, offset, [swapped.get(d, d) for d in range(len(sizes))])


def permute(sizes, strides, offset, dims):
    refuse(len(dims) != len(sizes), RuntimeError, f"{len(dims)} dims for {len(sizes)}")
    order = [wrap(d, len(sizes)) for d in dims]
    refuse(len(set(order)) < len(order), RuntimeError, f"a dimension twice in {dims}")
    return reordered(sizes, strides, offset, order)


def select(sizes, strides, offset, dim, index):
    refuse(not sizes, IndexError, "select needs a dimension")
    dim = wrap(dim, len(sizes))
    refuse(not -sizes[dim] <= index < sizes[dim], IndexError, f"index {index} of {sizes[dim]}")
    return without(sizes, dim), without(strides, dim), offset + index % sizes[dim] * strides[dim]


def narrow(sizes, strides, offset, dim, start, length):
    refuse(not sizes or length < 0, RuntimeError, f"length {length} of sizes {sizes}")
    dim = wrap(dim, len(sizes))
    size = sizes[dim]
    refuse(not -size <= start <= size, IndexError, f"start {start} of {size}")
    start += size if start < 0 else 0
    refuse(start + length > size, RuntimeError, f"{start} + {length} > {size}")
    return (*sizes[:dim], length, *sizes[dim + 1 :]), strides, offset + start * strides[dim]


def expand(sizes, strides, offset, wanted):
    new = len(wanted) - len(sizes)
    refuse(new < 0 or -1 in wanted[:new], RuntimeError, f"{sizes} as {wanted}")
    new_sizes, new_strides = list(wanted[:new]), [0] * new
    for size, stride, target in zip(sizes, strides, wanted[new:], strict=True):
        refuse(target not in (size, -1) and size != 1, RuntimeError, f"{size} as {target}")
        new_sizes.append(size if target == -1 else target)
        new_strides.append(stride if target in (size, -1) else 0)
    return tuple(new_sizes), tuple(new_strides), offset


def unsqueeze(sizes, strides, offset, dim):
    dim = wrap(dim, len(sizes) + 1)
    return (*sizes[:dim], 1, *sizes[dim:]), (*strides[:dim], 1, *strides[dim:]), offset


def squeeze(sizes, strides, offset, dim):
    dim = wrap(dim, len(sizes))
    if not sizes or sizes[dim] != 1:
        return sizes, strides, offset
    return without(sizes, dim), without(strides, dim), offset


def unfold(sizes, strides, offset, dim, window, step):
    dim = wrap(dim, len(sizes))
    size, stride = (sizes[dim], strides[dim]) if sizes else (1, 1)
    refuse(window > size or step < 1, RuntimeError, f"window {window}, step {step} of {size}")
    places = (size - window) // step + 1
    sizes = (*sizes[:dim], places, *sizes[dim + 1 :], window) if sizes else (window,)
    strides = (*strides[:dim], step * stride, *strides[dim + 1 :], stride)[-len(sizes) :]
    return sizes, strides, offset


def view(sizes, strides, offset, wanted):
    numel, known = math.prod(sizes), math.prod(size for size in wanted if size != -1)
    refuse(wanted.count(-1) > 1 or min(wanted, default=0) < -1, RuntimeError, f"{wanted}")
    if -1 in wanted:
        refuse(known == 0 or numel % known, RuntimeError, f"{numel} elements as {wanted}")
        wanted = tuple(numel // known if size == -1 else size for size in wanted)
    refuse(math.prod(wanted) != numel, RuntimeError, f"{numel} elements as {wanted}")
    return wanted, cut(chunks(sizes, strides), wanted) if numel else (0,) * len(wanted), offset


def chunks(sizes, strides):
    """[elements, innermost stride] of every run of axes that memory walks as one, inner first."""
    found = []
    for size, stride in reversed(list(zip(sizes, strides, strict=True))):
        if found and size > 1 and stride == found[-1][0] * found[-1][1]:
            found[-1][0] *= size
        elif size > 1:
            found.append([size, stride])
    return found


def cut(runs, wanted):
    """The strides of `wanted`, which must end exactly where the runs end."""
    strides, placed = [], 1
    for size in reversed(wanted):
        if size > 1 and placed == runs[0][0]:
            runs, placed = runs[1:], 1
        strides.insert(0, placed * runs[0][1] if size > 1 else 1)
        placed *= size
        refuse(runs and placed > runs[0][0], RuntimeError, "a copy is needed")
    return tuple(strides)


def as_strided(sizes, strides, offset, new_sizes, new_strides, new_offset, length):
    same = len(new_sizes) == len(new_strides)
    refuse(not same or min(new_strides, default=0) < 0, RuntimeError, f"strides {new_strides}")
    last = new_offset + sum((n - 1) * s for n, s in zip(new_sizes, new_strides, strict=True))
    refuse(0 not in new_sizes and last >= length, RuntimeError, f"element {last} of {length}")
    return new_sizes, new_strides, new_offset


RULES = {
    "transpose": transpose, "permute": permute, "select": select, "narrow": narrow,
    "expand": expand, "unsqueeze": unsqueeze, "squeeze": squeeze, "view": view, "unfold": unfold,
}  # fmt: skip


@answers.right("view_machine")
def view_machine(meta, name, arguments, length):
    if name == "as_strided":
        return as_strided(*meta, *arguments, length)
    return RULES[name](*meta, *arguments)


def with_rule(name, rule):
    """The right machine with one rule replaced."""

    def machine(meta, asked, arguments, length):
        if asked == name:
            return rule(*meta, *arguments)
        return view_machine(meta, asked, arguments, length)

    return machine


def contiguous(sizes):
    return tuple(math.prod(max(n, 1) for n in sizes[d + 1 :]) for d in range(len(sizes)))


def view_anything(sizes, strides, offset, wanted):
    new_sizes, _, _ = view(sizes, contiguous(sizes), offset, wanted)
    return new_sizes, contiguous(new_sizes), offset


def expand_keeps(sizes, strides, offset, wanted):
    new_sizes, new_strides, _ = expand(sizes, strides, offset, wanted)
    return new_sizes, (*new_strides[: len(wanted) - len(sizes)], *strides), offset


def squeeze_empty_too(sizes, strides, offset, dim):
    dim = wrap(dim, len(sizes))
    if sizes and sizes[dim] < 2:
        return without(sizes, dim), without(strides, dim), offset
    return sizes, strides, offset


def select_without_wrapping(sizes, strides, offset, dim, index):
    refuse(not 0 <= dim < len(sizes), IndexError, "dim")
    return select(sizes, strides, offset, dim, index)


def unfold_in_place(sizes, strides, offset, dim, window, step):
    dim = wrap(dim, len(sizes))
    new_sizes, new_strides, _ = unfold(sizes, strides, offset, dim, window, step)
    order = [*range(dim), len(new_sizes) - 1, *range(dim, len(new_sizes) - 1)]
    return reordered(new_sizes, new_strides, offset, order)


for name, why, rule in [
    ("view", "view on non-mergeable strides", view_anything),
    ("expand", "expand keeps the old stride", expand_keeps),
    ("squeeze", "squeeze removes size-0 axes", squeeze_empty_too),
    ("select", "negative dim not wrapped", select_without_wrapping),
    ("unfold", "unfold's last axis in the wrong place", unfold_in_place),
]:
    answers.wrong("view_machine", why)(with_rule(name, rule))


@answers.wrong("view_machine", BANNED)
def asks_torch(meta, name, arguments, length):
    tensor = torch.empty(length, device="meta").as_strided(*meta)
    result = getattr(tensor, name)(*arguments)
    return tuple(result.shape), result.stride(), result.storage_offset()


@answers.wrong("view_machine", "is right only for square, even or contiguous shapes")
def always_contiguous(meta, name, arguments, length):
    sizes, strides, offset = view_machine(meta, name, arguments, length)
    return sizes, strides if name == "as_strided" else contiguous(sizes), offset


@answers.wrong("view_machine", FIRST, make=True)
def remembers_the_first_step():
    seen = {}

    def machine(meta, name, arguments, length):
        if name not in seen:
            seen[name] = view_machine(meta, name, arguments, length)
        return seen[name]

    return machine


# --- layouts


def strides_from_order(sizes, order):
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= sizes[dim]
    return tuple(strides)


def order_from_strides(sizes, strides):
    longer = [dim for dim, size in enumerate(sizes) if size > 1]
    ones = [dim for dim, size in enumerate(sizes) if size == 1]
    return (*sorted(longer, key=lambda dim: -strides[dim]), *ones)


answers.right("layout_from_order")((strides_from_order, order_from_strides))


def sorted_by_stride(sizes, strides):
    return tuple(sorted(range(len(sizes)), key=lambda dim: -strides[dim]))


def refuses_ones(sizes, strides):
    order = sorted_by_stride(sizes, strides)
    if strides_from_order(sizes, order) != tuple(strides):
        raise ValueError("not dense")
    return order


def inverted(sizes, order):
    return strides_from_order(sizes, [order.index(dim) for dim in range(len(order))])


def negative(sizes, order):
    return tuple(-stride for stride in strides_from_order(sizes, order))


def row_major(sizes, order):
    return strides_from_order(sizes, range(len(sizes)))


def asks_torch_for_strides(sizes, order):
    dense = torch.empty([sizes[dim] for dim in order], device="meta")
    return dense.permute([order.index(dim) for dim in range(len(order))]).stride()


def remembering():
    seen = []

    def first(sizes, order):
        seen.append(strides_from_order(sizes, order))
        return seen[0]

    return first, order_from_strides


for why, pair in [
    ("sorts by stride only", (strides_from_order, sorted_by_stride)),
    ("fails on size-1 axes", (strides_from_order, refuses_ones)),
    ("confuses permutation and its inverse", (inverted, order_from_strides)),
    ("returns negative strides", (negative, order_from_strides)),
    ("is right only for square, even or contiguous shapes", (row_major, order_from_strides)),
    (BANNED, (asks_torch_for_strides, order_from_strides)),
]:
    answers.wrong("layout_from_order", why)(pair)
answers.wrong("layout_from_order", FIRST, make=True)(remembering)

# --- the small steps of the chapter


@answers.right("needed")
def needed(sizes, strides, offset):
    if 0 in sizes:
        return 0
    return offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1


def last_place(sizes, strides, offset):
    return max(needed(sizes, strides, offset) - 1, 0)


def without_offset(sizes, strides, offset):
    return needed(sizes, strides, 0)


def size_for_index(sizes, strides, offset):
    return offset + sum(n * s for n, s in zip(sizes, strides, strict=True))


def room_for_nothing(sizes, strides, offset):
    return offset + sum((max(n, 1) - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1


for why, answer in {
    "multiplies the sizes": lambda sizes, strides, offset: math.prod(sizes),
    "takes size for the largest index": size_for_index,
    "forgets the offset": without_offset,
    "returns the last place, not the room": last_place,
    "needs room for a view without elements": room_for_nothing,
}.items():
    answers.wrong("needed", why)(answer)


def slicing(meta, dim, places, stride, offset):
    sizes, strides, _ = meta
    return (
        (*sizes[:dim], places, *sizes[dim + 1 :]),
        (*strides[:dim], stride, *strides[dim + 1 :]),
        offset,
    )


@answers.right("cut_out")
def cut_out(meta, dim, start, stop, step):
    places, stride = len(range(start, stop, step)), meta[1][dim]
    return slicing(meta, dim, places, step * stride, meta[2] + start * stride)


@answers.wrong("cut_out", "rounds the number of places down")
def rounds_down(meta, dim, start, stop, step):
    stride = meta[1][dim]
    return slicing(meta, dim, (stop - start) // step, step * stride, meta[2] + start * stride)


@answers.wrong("cut_out", "keeps the stride")
def keeps_the_stride(meta, dim, start, stop, step):
    sizes, _, offset = cut_out(meta, dim, start, stop, step)
    return sizes, meta[1], offset


@answers.wrong("cut_out", "counts the offset in indices")
def offset_in_indices(meta, dim, start, stop, step):
    sizes, strides, _ = cut_out(meta, dim, start, stop, step)
    return sizes, strides, meta[2] + start


@answers.wrong("cut_out", "changes dimension 0 whatever dim says")
def always_the_first(meta, dim, start, stop, step):
    return cut_out(meta, 0, start, stop, step)


@answers.right("view_strides")
def view_strides(sizes, strides, wanted):
    refuse(math.prod(sizes) != math.prod(wanted), RuntimeError, f"{sizes} as {wanted}")
    return cut(chunks(sizes, strides), wanted) if 0 not in sizes else (0,) * len(wanted)


def across_walks(sizes, strides, wanted):
    refuse(math.prod(sizes) != math.prod(wanted), RuntimeError, f"{sizes} as {wanted}")
    found, left, room, step = [], chunks(sizes, strides), 1, 1
    for size in reversed(wanted):
        if room == 1 and left:
            room, step = left.pop(0)
        found.insert(0, step)
        room, step = max(room // max(size, 1), 1), step * size
    return tuple(found)


def contiguous_only(sizes, strides, wanted):
    dense = [at for at, size in enumerate(sizes) if size > 1]
    packed = contiguous(sizes)
    refuse(any(strides[at] != packed[at] for at in dense), RuntimeError, "not contiguous")
    return view_strides(sizes, strides, wanted)


def any_number(sizes, strides, wanted):
    if math.prod(sizes) != math.prod(wanted):
        return contiguous(wanted)
    return view_strides(sizes, strides, wanted)


def ones_end_walks(sizes, strides, wanted):
    refuse(1 in sizes or 1 in wanted, RuntimeError, "a dimension of size 1")
    return view_strides(sizes, strides, wanted)


def value_error(sizes, strides, wanted):
    try:
        return view_strides(sizes, strides, wanted)
    except RuntimeError as error:
        raise ValueError(*error.args) from None


for why, answer in {
    "packs the strides as a fresh tensor has them": lambda sizes, strides, wanted: contiguous(
        wanted
    ),
    "lets a dimension run from one walk into the next": across_walks,
    "refuses whatever is not contiguous": contiguous_only,
    "never refuses different numbers of elements": any_number,
    "stumbles over dimensions of size 1": ones_end_walks,
    "refuses with a ValueError": value_error,
}.items():
    answers.wrong("view_strides", why)(answer)


test_answers = answers.tests()


def test_a_refusal_with_another_error_is_told_which_error_it_is():
    asked = answers.exercises["view_strides"]
    found = failing_cases(asked, value_error, seed=3, search=False)[0]
    fitting = [hint.text for hint in asked.hints if isinstance(hint, Hint) and hint.fits(found)]
    assert fitting[0] == "The refusal is right. `view` says it with a RuntimeError."
