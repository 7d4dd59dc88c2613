import math
from collections import Counter

import pytest
import torch

from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercise import Hint, Raises
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("memory")
SQUARE = "is right only for square, even or contiguous shapes"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- bytes_held


def whole(tensor):
    return tensor.untyped_storage().nbytes()


@answers.right("bytes_held")
def bytes_held(tensors):
    return sum({storage(t): whole(t) for t in tensors}.values())


for why, answer in [
    ("counts a storage once per tensor", lambda tensors: sum(whole(t) for t in tensors)),
    ("counts a storage once per tensor", lambda ts: sum({id(t): whole(t) for t in ts}.values())),
    ("counts storages of one size once", lambda ts: sum({whole(t) for t in ts})),
    ("counts what a view shows", lambda ts: sum({storage(t): t.nbytes for t in ts}.values())),
    ("counts what a view shows", lambda tensors: sum(t.nbytes for t in tensors)),
    ("counts elements", lambda ts: sum({storage(t): t.numel() for t in ts}.values())),
    (
        "tells storages apart by the tensor's address",
        lambda tensors: sum({t.data_ptr(): whole(t) for t in tensors}.values()),
    ),
]:
    answers.wrong("bytes_held", why)(answer)

# --- byte_range


def distance(x):
    return sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))


@answers.right("byte_range")
def byte_range(x):
    if x.numel() == 0:
        return 0, 0
    start = x.storage_offset()
    return start * x.itemsize, (start + distance(x) + 1) * x.itemsize


def with_ends(ends):
    """An answer that is right about empty tensors."""
    return lambda x: ends(x, x.storage_offset(), x.itemsize) if x.numel() else (0, 0)


for why, answer in [
    ("counts elements", with_ends(lambda x, start, width: (start, start + distance(x) + 1))),
    (
        "ends at the first byte of the last element",
        with_ends(lambda x, start, width: (start * width, (start + distance(x)) * width)),
    ),
    (
        "takes numel for the distance",
        with_ends(lambda x, start, width: (start * width, (start + x.numel()) * width)),
    ),
    (
        "leaves out the offset",
        with_ends(lambda x, start, width: (0, (distance(x) + 1) * width)),
    ),
    (
        "takes every element for four bytes",
        with_ends(lambda x, start, width: (start * 4, (start + distance(x) + 1) * 4)),
    ),
    (
        "answers with addresses",
        with_ends(lambda x, start, width: (x.data_ptr(), x.data_ptr() + (distance(x) + 1) * width)),
    ),
    (
        "an empty tensor touches something",
        lambda x: byte_range(x) if x.numel() else (x.storage_offset() * x.itemsize,) * 2,
    ),
]:
    answers.wrong("byte_range", why)(answer)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("bytes_held", lambda ts: sum(whole(t) for t in ts), "read one storage"),
        ("bytes_held", lambda ts: sum({storage(t): 1 for t in ts}.values()), "keeps its whole"),
        ("bytes_held", lambda ts: sum({whole(t) for t in ts}), "still two"),
        ("byte_range", with_ends(lambda x, start, width: (start, start + distance(x) + 1)), "elem"),
        (
            "byte_range",
            with_ends(lambda x, start, width: (start * width, (start + distance(x)) * width)),
            "Only the end differs",
        ),
        (
            "byte_range",
            with_ends(lambda x, start, width: (start * width, (start + x.numel()) * width)),
            "side by side",
        ),
        (
            "byte_range",
            with_ends(lambda x, start, width: (start * 4, (start + distance(x) + 1) * 4)),
            "not 4",
        ),
        (
            "byte_range",
            with_ends(lambda x, start, width: (x.data_ptr(), x.data_ptr() + x.nbytes)),
            "an address",
        ),
        (
            "bytes_held",
            lambda ts: sum({t.data_ptr(): whole(t) for t in ts}.values()),
            "where the tensor begins",
        ),
    ],
)
def test_the_first_hint_is_about_the_mistake(name, answer, said):
    exercise = find(f"memory.{name}")
    stages = outcomes(exercise, answer, 5) if exercise.stages else []
    failures = [failure for stage in stages for failure in stage.failures]
    evidence = (failures or failing_cases(exercise, answer, 5))[0]
    hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
    fitting = [hint for hint in hints if hint.may_help(evidence) and hint.fits(evidence)]
    assert said in fitting[0].text


# --- share_inspector


def touched(x, *, width=None):
    width = width or x.itemsize
    marks = torch.zeros(max(x.untyped_storage().nbytes(), 1), dtype=torch.bool)
    if x.numel():
        sizes = [n if s else 1 for n, s in zip(x.shape, x.stride(), strict=True)]
        strides = [s * width for s in x.stride()]
        begin = x.storage_offset() * width
        marks.as_strided([*sizes, width], [*strides, 1], begin).fill_(True)
    return marks


def storage(x):
    return x.untyped_storage().data_ptr()


def relation(ours, theirs):
    common = ours & theirs
    if not common.any():
        return "disjoint"
    if torch.equal(ours, theirs):
        return "same bytes"
    whole = torch.equal(common, ours) or torch.equal(common, theirs)
    return "inside" if whole else "overlap"


@answers.right("share_inspector")
def classify(a, b):
    if a is b:
        return "same tensor"
    if storage(a) != storage(b):
        return "separate"
    return relation(touched(a), touched(b))


def unless(test, said):
    """The right answer, except where the test is true."""
    return lambda a, b: said if test(a, b) else classify(a, b)


@answers.wrong("share_inspector", "compares data_ptr")
def by_data_ptr(a, b):
    return "same bytes" if a.data_ptr() == b.data_ptr() else "separate"


@answers.wrong("share_inspector", "takes another name for another tensor")
def by_name(a, b):
    return "same bytes" if a is b and a.numel() else classify(a, b)


@answers.wrong("share_inspector", "asks only whether a is inside b")
def one_way(a, b):
    right = classify(a, b)
    larger = right == "inside" and touched(a).sum() > touched(b).sum()
    return "overlap" if larger else right


def equal_values(a, b):
    return a is not b and a.dtype == b.dtype and torch.equal(a, b)


for name, answer in [
    ("compares data_ptr", unless(lambda a, b: a.data_ptr() == b.data_ptr(), "same bytes")),
    ("compares values", unless(equal_values, "same bytes")),
    ("compares id", unless(lambda a, b: classify(a, b) == "same bytes", "inside")),
]:
    answers.wrong("share_inspector", name)(answer)


@answers.wrong("share_inspector", "any two views of one storage overlap")
def never_disjoint(a, b):
    right = classify(a, b)
    return "overlap" if right == "disjoint" else right


@answers.wrong("share_inspector", "any two views of one storage overlap")
def by_ranges(a, b):
    """Ranges from the first byte to the last, as numpy's may_share_memory takes them."""

    def first_and_last(x):
        last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
        begin = x.storage_offset() * x.itemsize
        return begin, begin + (last + 1) * x.itemsize

    if storage(a) != storage(b):
        return "separate"
    (la, ha), (lb, hb) = first_and_last(a), first_and_last(b)
    if 0 in a.shape or 0 in b.shape or ha <= lb or hb <= la:
        return "disjoint"
    if a is b or (la, ha) == (lb, hb):
        return "same tensor" if a is b else "same bytes"
    return "inside" if (la <= lb and hb <= ha) or (lb <= la and ha <= hb) else "overlap"


@answers.wrong("share_inspector", "uses _base")
def by_base(a, b):
    def base(x):
        return x if x._base is None else x._base

    return classify(a, b) if base(a) is base(b) else "separate"


@answers.wrong("share_inspector", "ignores itemsize")
def in_elements(a, b):
    return "separate" if storage(a) != storage(b) else relation(
        touched(a, width=1), touched(b, width=1)
    )  # fmt: skip


@answers.wrong("share_inspector", "ignores itemsize")
def by_first_bytes(a, b):
    def starts(x):
        return touched(x, width=1).nonzero().ravel() * x.itemsize

    if a is b:
        return "same tensor"
    if storage(a) != storage(b):
        return "separate"
    ours, theirs = (set(starts(x).tolist()) for x in (a, b))
    if not ours & theirs:
        return "disjoint"
    if ours == theirs:
        return "same bytes"
    return "inside" if ours <= theirs or theirs <= ours else "overlap"


def test_first_bytes_alone_have_their_hint():
    for seed in (5, 6, 7):
        hint = first_hint(find("memory.share_inspector"), by_first_bytes, seed)
        assert "each element touches itemsize of them" in hint, hint


def by_sets(a, b):
    """The chapter's way: the bytes of the first element, repeated along every dimension."""

    def bytes_of(t):
        width, found = t.itemsize, range(t.itemsize)
        found = {t.storage_offset() * width + place for place in found}
        for size, stride in zip(t.shape, t.stride(), strict=True):
            steps = range(size) if stride else range(min(size, 1))
            found = {place + i * stride * width for place in found for i in steps}
        return found

    if a is b:
        return "same tensor"
    if storage(a) != storage(b):
        return "separate"
    ours, theirs = bytes_of(a), bytes_of(b)
    if not ours & theirs:
        return "disjoint"
    if ours == theirs:
        return "same bytes"
    return "inside" if ours < theirs or theirs < ours else "overlap"


answers.right("share_inspector")(by_sets)


def test_every_relation_is_asked_for_often():
    exercise = find("memory.share_inspector")
    counts = Counter(exercise.right(exercise.make(4, n, n * 9 // 600)) for n in range(600))
    kinds = ("same bytes", "inside", "overlap", "disjoint", "separate")
    assert all(counts[kind] > 40 for kind in kinds)
    assert counts["same tensor"] > 15


def test_the_pairs_of_the_statement():
    exercise = find("memory.share_inspector")
    x = torch.arange(12)
    for a, b, right in [
        (x, x, "same tensor"),
        (x, x.view(3, 4).t(), "same bytes"),
        (x, x[2:], "inside"),
        (x[:5], x[4:], "overlap"),
        (x[::2], x[1::2], "disjoint"),
        (x, x.clone(), "separate"),
        (x[3:3], x, "disjoint"),
        (x.view(torch.int32)[::2], x, "inside"),
    ]:
        assert exercise.expected(a, b) == right == classify(a, b)


# --- reshape_or_copy


def resolved(sizes, wanted):
    numel, known = math.prod(sizes), math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or any(n < -1 for n in wanted):
        raise RuntimeError(f"invalid shape {wanted}")
    if -1 in wanted:
        if known == 0 or numel % known:
            raise RuntimeError(f"{numel} elements as {wanted}")
        wanted = tuple(numel // known if n == -1 else n for n in wanted)
    if math.prod(wanted) != numel:
        raise RuntimeError(f"{numel} elements as {wanted}")
    return wanted


def view_strides(sizes, strides, wanted, *, ones=True, gaps=True):
    wanted = resolved(sizes, wanted)
    if 0 in sizes:
        return (1,) * len(wanted)
    axes = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1 or not ones]
    runs = []
    for size, stride in axes:
        if runs and (not gaps or runs[-1][1] == size * stride):
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    result, left = [1] * len(wanted), 1
    step = 1
    for dim in reversed(range(len(wanted))):
        if wanted[dim] == 1 and ones:
            continue
        if left == 1 and runs:
            left, step = runs.pop()
        if left % wanted[dim]:
            return None
        result[dim], step, left = step, step * wanted[dim], left // wanted[dim]
    return tuple(result)


@answers.right("reshape_or_copy")
def reshape_or_copy(sizes, strides, wanted):
    return view_strides(sizes, strides, wanted)


def contiguous(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


@answers.wrong("reshape_or_copy", "view only if contiguous")
def only_contiguous(sizes, strides, wanted):
    same = all(n == 1 or s == c for n, s, c in zip(sizes, strides, contiguous(sizes), strict=True))
    return view_strides(sizes, strides, wanted) if same or 0 in sizes else None


@answers.wrong("reshape_or_copy", "always copies")
def always_copies(sizes, strides, wanted):
    resolved(sizes, wanted)


@answers.wrong("reshape_or_copy", "wrong on size-1 axes")
def ones_count(sizes, strides, wanted):
    return view_strides(sizes, strides, wanted, ones=False)


@answers.wrong("reshape_or_copy", "wrong on size-1 axes")
def looks_at_strides_of_ones(sizes, strides, wanted):
    right = view_strides(sizes, strides, wanted)
    for dim in range(len(sizes) - 1):
        broken = strides[dim] != sizes[dim + 1] * strides[dim + 1]
        if broken and 1 in sizes[dim : dim + 2] and tuple(wanted) != sizes:
            return None
    return right


@answers.wrong("reshape_or_copy", "accepts a merge across a gap")
def no_gaps(sizes, strides, wanted):
    return view_strides(sizes, strides, wanted, gaps=False)


@answers.wrong("reshape_or_copy", BANNED)
def asks_torch(sizes, strides, wanted):
    tensor = torch.empty(1000, dtype=torch.uint8).as_strided(sizes, strides)
    return tensor.view(wanted).stride()


@answers.wrong("reshape_or_copy", BANNED)
def asks_labkit(sizes, strides, wanted):
    from labkit.core.strides import compute_view_strides, infer_size

    return compute_view_strides(sizes, strides, infer_size(wanted, math.prod(sizes)))


@answers.wrong("reshape_or_copy", SQUARE)
def by_the_last_stride(sizes, strides, wanted):
    """Right for every contiguous tensor, and for one with all strides multiplied."""
    wanted = resolved(sizes, wanted)
    step = strides[-1] if strides else 1
    return tuple(s * step for s in contiguous(wanted))


@answers.wrong("reshape_or_copy", "accepts a merge across a gap")
def accepts_any_shape(sizes, strides, wanted):
    try:
        return view_strides(sizes, strides, wanted)
    except RuntimeError:
        return None


def test_views_copies_refusals_ones_and_empty_tensors_are_all_asked_for():
    exercise, kinds = find("memory.reshape_or_copy"), Counter()
    for number in range(1500):
        inputs = exercise.make(4, number, number * 9 // 1500).inputs
        sizes, strides, wanted = inputs
        right = sys_reshaped(*inputs)
        kinds["refused" if isinstance(right, Raises) else "copy" if right is None else "view"] += 1
        kinds["one"] += 1 in sizes
        kinds["empty"] += 0 in sizes
        kinds["unknown"] += -1 in wanted
        kinds["strided view"] += isinstance(right, tuple) and strides != contiguous(sizes)
    few = {k: kinds[k] for k in ("refused", "copy", "view", "one", "empty", "unknown")}
    assert all(number > 80 for number in few.values()), few
    assert kinds["strided view"] > 100, kinds


def sys_reshaped(sizes, strides, wanted):
    """What torch does, asked without the exercise."""
    reach = 1 + sum(max(0, n - 1) * s for n, s in zip(sizes, strides, strict=True))
    x = torch.empty(reach).as_strided(sizes, strides)
    try:
        y = x.reshape(wanted)
    except RuntimeError:
        return Raises(RuntimeError)
    return y.stride() if storage(x) == storage(y) else None


@pytest.mark.parametrize("got", ["(1,)", (1.0,), (True,), 3, [None], (1, 2, 3)])
def test_what_is_no_tuple_of_strides_is_refused_in_words(got):
    exercise = find("memory.reshape_or_copy")
    case = next(
        case
        for case in (exercise.make(1, n, 4) for n in range(50))
        if isinstance(right := sys_reshaped(*case.inputs), tuple) and len(right) == 1
    )
    assert exercise.judge(case, got) is not None


test_answers = answers.tests()
