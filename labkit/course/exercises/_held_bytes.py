"""The small steps of the memory chapter: bytes that are held, and the bytes from first to last."""

from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng

DTYPES = (torch.uint8, torch.int16, torch.float32, torch.int64)


def _some_tensors(rng: Rng, size: int) -> tuple[list[torch.Tensor]]:
    """Tensors of one or several storages; some are views, some stand there twice."""
    found = []
    for _ in range(rng.randint(1, 1 + size // 2)):
        base = rng.tensor((rng.randint(1, 4), rng.randint(2, 6)), rng.choice(DTYPES))
        views = [base, base[1:], base.t(), base[:, ::2], base.expand(3, *base.shape)]
        found += [rng.choice(views) for _ in range(rng.randint(1, 3))]
    rng.shuffle(found)
    return (found,)


def _held(tensors: list[torch.Tensor]) -> int:
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def as_list(tensors: list[torch.Tensor]) -> str:
    """Every tensor with its storage's letter and size."""
    letters: dict[int, str] = {}
    lines = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        letter = letters.setdefault(storage.data_ptr(), chr(ord("A") + len(letters)))
        dtype = str(tensor.dtype).removeprefix("torch.")
        lines.append(f"{dtype}{list(tensor.shape)} over {letter} ({storage.nbytes()} bytes)")
    return "; ".join(lines)


def layout(x: torch.Tensor) -> str:
    """Its dtype, sizes, strides and offset."""
    dtype = str(x.dtype).removeprefix("torch.")
    strides = f"strides {x.stride()}, offset {x.storage_offset()}"
    return f"{dtype}, sizes {tuple(x.shape)}, {strides}"


def _drawn(case: Any, got: Any, right: Any) -> Any:
    """The tensors over their storages."""
    from labkit import show

    (tensors,) = case.inputs
    return show.strides(*tensors, names=[f"tensors[{at}]" for at in range(len(tensors))])


def _too_much(evidence: Evidence) -> bool:
    return isinstance(evidence.value, int) and evidence.value > evidence.right


def _share(tensors: list[torch.Tensor]) -> bool:
    """Whether some storage stands there twice."""
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) < len(tensors)


def _by_size(evidence: Evidence) -> bool:
    """The answer counts storages of equal size as one."""
    (tensors,) = evidence.inputs
    return bool(evidence.value == sum({t.untyped_storage().nbytes() for t in tensors}))


def _in_elements(evidence: Evidence) -> bool:
    width = evidence.inputs[0].itemsize
    ends = tuple(end // width for end in evidence.right)
    return width > 1 and tuple(evidence.value) == ends


def _ends(evidence: Evidence) -> tuple[torch.Tensor, int, int]:
    """The tensor, and both ends of a wrong answer; (-1, -1) where it has no two."""
    (x,), value = evidence.inputs, evidence.value
    pair = isinstance(value, tuple) and len(value) == 2
    return (x, *value) if pair and all(isinstance(end, int) for end in value) else (x, -1, -1)


def _by_count(evidence: Evidence) -> bool:
    """The answer ends where that many elements side by side would end."""
    x, first, end = _ends(evidence)
    return end >= 0 and end - first == x.numel() * x.itemsize


def _four_bytes_each(evidence: Evidence) -> bool:
    x, *ends = _ends(evidence)
    return x.itemsize != 4 and [end * x.itemsize for end in ends] == [
        end * 4 for end in evidence.right
    ]


def _is_address(evidence: Evidence) -> bool:
    x, first, _ = _ends(evidence)
    return bool(first > 1 << 20 > x.untyped_storage().nbytes())


bytes_held = Exercise(
    id="memory.bytes_held",
    case=_some_tensors,
    expected=_held,
    show=as_list,
    picture=_drawn,
    rung="warm-up",
    cases=150,
    minutes=4,
    hints=(
        Hint(
            "Too much. Two of the tensors read one storage: count it once. storage(t) is where it "
            "begins; t.data_ptr() is where the tensor begins.",
            when=lambda e: _too_much(e) and _share(*e.inputs),
        ),
        Hint(
            "Too much. An expanded tensor shows its few bytes again and again: ask the storage for "
            "nbytes(), not the tensor.",
            when=_too_much,
        ),
        Hint(
            "Too little. Two storages may have one size, and are still two: tell them apart by "
            "where they begin, storage(t).",
            when=lambda e: e.value < e.right and _by_size(e),
        ),
        Hint(
            "Too little. A view keeps its whole storage, also the bytes that it does not show: "
            "ask the storage for nbytes(), not the tensor.",
            when=lambda e: isinstance(e.value, int) and e.value < e.right,
        ),
        "A dictionary counts things once: {storage(t): ... for t in tensors}. Then sum its values.",
    ),
    must_fail=(
        "counts a storage once per tensor",
        "counts storages of one size once",
        "counts what a view shows",
        "counts elements",
        "tells storages apart by the tensor's address",
    ),
)


def _a_view(rng: Rng, size: int) -> tuple[torch.Tensor]:
    """A slice of a small matrix, sometimes transposed, stretched or empty."""
    base = rng.tensor((rng.randint(1, 2 + size), rng.randint(1, 5)), rng.choice(DTYPES))
    row, column = rng.randint(0, base.size(0) - 1), rng.randint(0, base.size(1) - 1)
    view = base[row:, column :: rng.randint(1, 2)]
    kind = rng.random()
    if kind < 0.25:
        return (view.t(),)
    if kind < 0.35:
        return (view.expand(3, *view.shape),)
    if kind < 0.45:
        return (view[:0],)
    return (view if kind < 0.8 else view[0, -1],)


def _first_to_last(x: torch.Tensor) -> tuple[int, int]:
    if x.numel() == 0:
        return 0, 0
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    start = x.storage_offset()
    return start * x.itemsize, (start + last + 1) * x.itemsize


def _over_its_storage(case: Any, got: Any, right: Any) -> Any:
    """The view over all of its storage."""
    from labkit import show

    (x,) = case.inputs
    return show.strides(x, names=["x"])


byte_range = Exercise(
    id="memory.byte_range",
    case=_a_view,
    expected=_first_to_last,
    show=lambda x: f"x: {layout(x)}",
    picture=_over_its_storage,
    rung="warm-up",
    cases=200,
    minutes=4,
    hints=(
        Hint(
            "x is empty: it touches no byte, and the answer is (0, 0).",
            when=lambda e: 0 in e.inputs[0].shape,
        ),
        Hint(
            "These are the places, counted in elements. An element has x.itemsize bytes.",
            when=_in_elements,
        ),
        Hint(
            "An element of x has x.itemsize bytes, and these are not 4.",
            when=_four_bytes_each,
        ),
        Hint(
            "That is an address. Count the bytes from the start of the storage: before x lie "
            "x.storage_offset() elements.",
            when=_is_address,
        ),
        Hint(
            "You count the elements of x as if they lay side by side. Its last place comes from "
            "sizes and strides: reach(x) has it.",
            when=_by_count,
        ),
        Hint(
            "Only the end differs. It is one past the last byte of the last element.",
            when=lambda e: isinstance(e.value, tuple) and e.value[:1] == e.right[:1],
        ),
        "reach(x) counts elements. An element has x.itemsize bytes: multiply both ends by it.",
    ),
    must_fail=(
        "counts elements",
        "ends at the first byte of the last element",
        "takes numel for the distance",
        "leaves out the offset",
        "takes every element for four bytes",
        "answers with addresses",
        "an empty tensor touches something",
    ),
)
