"""Who owns the bytes: two tensors classified, reshape without memory, what backward keeps."""

import functools
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._held_bytes import byte_range, bytes_held
from labkit.course.exercises._reshape_or_copy import reshape_or_copy
from labkit.course.exercises._small_models import Step, a_model, unwatched

NOTEBOOK = "1_fundamentals/6_memory"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"


# --- share_inspector

RELATIONS = ("separate", "same", "disjoint", "view", "overlap")
DTYPES = (torch.uint8, torch.int16, torch.float32, torch.int64, torch.complex64)


def _two_tensors(rng: Rng, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors over one storage or two; both storages hold the same values."""
    nbytes = 16 * rng.randint(1, 2 + 2 * size)
    if size > 4 and rng.chance(0.1):
        nbytes = 1 << 16
    content = rng.tensor((nbytes,), torch.uint8)
    first = content.clone()
    second = content.clone() if rng.chance(0.2) else first
    a = _laid_out(rng, first, rng.choice(DTYPES))
    kind = rng.random()
    if second is first and kind < 0.05:
        return a, a
    if second is first and kind < 0.3:
        return a, _another_name(rng, a)
    return a, _laid_out(rng, second, a.dtype if rng.chance(0.4) else rng.choice(DTYPES))


def _another_name(rng: Rng, a: torch.Tensor) -> torch.Tensor:
    """A view of a: of all of it, of its first elements, or with every element as two halves."""
    kind = rng.randint(0, 5)
    if kind == 0:
        return a.detach()
    if kind == 1:
        return a.permute(tuple(reversed(range(a.dim()))))
    if kind == 2 and a.dim():
        return a.narrow(0, 0, rng.randint(0, a.size(0)))
    if kind == 3 and a.dtype == torch.complex64:
        return torch.view_as_real(a)
    if kind == 4 and a.dim():
        return a.unsqueeze(0).expand(3, *a.shape)
    return a.view(torch.float64 if a.dtype in (torch.int64, torch.complex64) else a.dtype)


def _laid_out(rng: Rng, storage: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of random strides that fits; sometimes empty, sometimes stretched."""
    room = storage.nbytes // dtype.itemsize
    offset = rng.choice((0, 0, rng.randint(0, room - 1)))
    left, sizes, strides = room - offset - 1, [], []
    for _ in range(rng.randint(0, 3)):
        stride = rng.choice((1, 1, 2, 2, 3, 4, 6, 8, max(1, room // 2), max(1, room // 8)))
        reach = left // stride
        size = reach + 1 if rng.chance(0.5) else rng.randint(1, 1 + min(reach, 40))
        left -= (size - 1) * stride
        sizes.append(size)
        strides.append(stride)
    if rng.chance(0.06):
        sizes.append(0)
        strides.append(1)
    if rng.chance(0.06):
        sizes.insert(0, rng.choice((3, 50)))
        strides.insert(0, 0)
    order = rng.sample(range(len(sizes)), len(sizes))
    view = storage.view(dtype) if rng.chance(0.5) else _without_base(storage, dtype)
    return view.as_strided([sizes[d] for d in order], [strides[d] for d in order], offset)


def _without_base(storage: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the same bytes that autograd does not know as a view."""
    empty = torch.empty(0, dtype=dtype)
    return empty.set_(storage.untyped_storage(), 0, (storage.nbytes // dtype.itemsize,), (1,))


def _bytes_of(tensor: torch.Tensor) -> set[int]:
    """Every byte the tensor touches, counted from the start of its storage."""
    if tensor.numel() == 0:
        return set()
    places = np.array([tensor.storage_offset()])
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            places = np.unique(np.add.outer(places, np.arange(size) * stride))
    width = tensor.itemsize
    return set(np.add.outer(places * width, np.arange(width)).ravel().tolist())


def _relation(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return "separate"
    ours, theirs = _bytes_of(a), _bytes_of(b)
    if not ours & theirs:
        return "disjoint"
    if ours == theirs:
        return "same"
    return "view" if ours <= theirs or theirs <= ours else "overlap"


def _in_words(a: torch.Tensor, b: torch.Tensor) -> str:
    one = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    lines = [
        f"{name}: {str(x.dtype).removeprefix('torch.')}, sizes {tuple(x.shape)}, strides "
        f"{x.stride()}, offset {x.storage_offset()}"
        for name, x in (("a", a), ("b", b))
    ]
    where = "one storage" if one else "two storages"
    return "; ".join([*lines, f"{where} of {a.untyped_storage().nbytes()} bytes"])


def _is(answer: str) -> Callable[..., bool]:
    return lambda a, b: _relation(a, b) == answer


def _both(case: Case, got: Any, right: Any) -> Any:
    """The two tensors over their storages, where that can be drawn small."""
    from labkit import show

    a, b = case.inputs
    if max(tensor.untyped_storage().nbytes() for tensor in (a, b)) > 256:
        return None
    return show.strides(a, b, names=["a", "b"])


def _pair(got: str, right: str) -> Any:
    return lambda evidence: (evidence.value, evidence.right) == (got, right)


share_inspector = Exercise(
    id="memory.share_inspector",
    rules=("any torch call; the tensors stay as they are",),
    case=_two_tensors,
    expected=_relation,
    show=_in_words,
    stages=(
        *(Stage(name, only=_is(name)) for name in RELATIONS),
        Stage("together"),
    ),
    picture=_both,
    cases=600,
    sizes=8,
    minutes=15,
    hints=(
        Hint(
            "You say overlap, and the two never touch: {input}. Two views of one storage may "
            "take turns, one the even and one the odd places.",
            when=_pair("overlap", "disjoint"),
        ),
        Hint(
            "One of the two is empty. It has a storage and an address, and touches no byte of it.",
            when=lambda e: any(0 in tensor.shape for tensor in e.inputs),
        ),
        Hint(
            "Offsets and strides count elements. Here an element of a has another size than one "
            "of b: turn both into bytes first. {input}",
            when=lambda e: e.inputs[0].itemsize != e.inputs[1].itemsize,
        ),
        Hint(
            "You say same, and they are not. The same first byte, or equal values, is not enough.",
            when=lambda e: e.value == "same",
        ),
        Hint(
            "An axis of stride 0 visits the same bytes again and again. Leave such axes out.",
            when=lambda e: any(0 in tensor.stride() for tensor in e.inputs),
        ),
        "Work out the bytes that each one touches. Once you have two sets, the five answers are "
        "one line each.",
        "Begin with the bytes of the first element. For every dimension, repeat what you have at "
        "each step: places() of the chapter, with strides and offset times the item size.",
    ),
    must_fail=(
        "compares data_ptr",
        "compares id",
        "compares values",
        "any two views of one storage overlap",
        "uses _base",
        "ignores itemsize",
        FIRST,
        READS,
    ),
)


# --- saved_bytes


def _kept(model: nn.Module, x: torch.Tensor) -> dict[str, int]:
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would keep its own node alive for ever

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = model(x)
    del held
    return {"bytes": sum(found.values()), "tensors alive afterwards": 0}


def _drive_saved(answer: Any, model: nn.Module, x: torch.Tensor) -> dict[str, Any]:
    """What the answer says, and what it leaves behind: watched storage by storage.

    A model that is not `watched` is asked for its bytes alone.
    """
    if not getattr(model, "watched", True):
        return {"bytes": answer(model, x), "tensors alive afterwards": 0}
    made: list[StorageWeakRef] = []
    given = x.untyped_storage().data_ptr()

    class Watch:
        def __call__(self, module: Any, inputs: Any, output: torch.Tensor) -> None:
            if output.untyped_storage().data_ptr() != given:
                made.append(StorageWeakRef(output.untyped_storage()))

    watches = [step.register_forward_hook(Watch()) for step in model.children()]
    try:
        result = answer(model, x)
    finally:
        for watch in watches:
            watch.remove()
    if any(not one.expired() for one in made):
        gc.collect()  # a cycle of the answer's is no leak
    alive = sum(not one.expired() for one in made)
    return {"bytes": result, "tensors alive afterwards": alive}


def _model_in_words(model: nn.Module, x: torch.Tensor) -> str:
    names = ", ".join(step.name for step in model.children() if isinstance(step, Step))
    asks = ", requires_grad" if x.requires_grad else ""
    return f"model: {names}; x: {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}{asks}"


def _graph(case: Case, got: Any, right: Any) -> Any:
    """The graph of the model's result, with what every node saved."""
    from labkit import show

    model, x = case.inputs
    result = model(x)
    return show.graph(result) if result.requires_grad else None


def _weights(evidence: Evidence) -> list[int]:
    model = evidence.inputs[0]
    return [tensor.nbytes for tensor in (*model.parameters(), *model.buffers())]


def _off_by_weight(evidence: Evidence) -> bool:
    off = evidence.value["bytes"] - evidence.right["bytes"]
    sums = functools.reduce(lambda s, n: s | {one + n for one in s}, _weights(evidence), {0})
    return off > 0 and off in sums


def _has_step(name: str) -> Any:
    return lambda e: any(getattr(step, "name", "") == name for step in e.inputs[0].children())


saved_bytes = Exercise(
    id="memory.saved_bytes",
    rules=("torch's own tools; model and x stay as they are",),
    case=a_model,
    expected=_kept,
    drive=_drive_saved,
    picture=_graph,
    show=_model_in_words,
    cases=300,
    seconds=5.0,
    sizes=6,
    stages=(
        Stage("one layer", case=unwatched("sin", "relu", "tanh", "exp", "cube")),
        Stage("weights left out", case=unwatched("scale", "shift")),
        Stage("views of weights", case=unwatched("linear", "tied")),
        Stage("nothing alive afterwards"),
    ),
    minutes=15,
    hints=(
        Hint(
            "The bytes are one thing, what stays alive another: something of the step is still "
            "held after you returned. A list outside the function? Or does pack return the very "
            "tensor it was given? A node that holds its own result is never freed; detach() it.",
            when=lambda e: e.value["tensors alive afterwards"] > 0,
        ),
        Hint(
            "Too high by a parameter or a buffer. Collect the storages of both before the run, "
            "and leave them out.",
            when=_off_by_weight,
            stage="weights left out",
        ),
        Hint(
            "Too high by exactly one or more parameters. linear saves its weight transposed: "
            "another tensor, the same storage. Compare storages, not tensors.",
            when=_off_by_weight,
        ),
        Hint(
            "mean saves a number expanded to the size of x: many elements, one storage of a few "
            "bytes. Ask the storage for its size, not the tensor.",
            when=_has_step("mean"),
        ),
        Hint(
            "half saves a view of half of x. What stays alive is the storage, and that is whole.",
            when=_has_step("half"),
        ),
        Hint(
            "cube is a custom function. What it gives to save_for_backward passes the same hooks "
            "as everything else, but no attribute of its node is called _saved_...",
            when=_has_step("cube"),
        ),
        Hint(
            "Too high: two saved tensors can have one storage. tanh keeps its result, and the "
            "next linear keeps the same one as its input.",
            when=lambda e: e.value["bytes"] > e.right["bytes"],
        ),
        "torch.autograd.graph.saved_tensors_hooks(pack, unpack) shows you every tensor that is "
        "saved. Key a dictionary by the storage's address inside pack.",
        "pack must return something that holds the storage, such as tensor.detach(): otherwise its "
        "memory is given to the next one, and two storages have one address.",
    ),
    must_fail=(
        "counts numel not bytes",
        "counts parameters",
        "double-counts views",
        "misses tensors saved by custom functions",
        "keeps tensors alive afterwards",
        ELSEWHERE,
        FIRST,
    ),
)

EXERCISES = (bytes_held, byte_range, share_inspector, saved_bytes, reshape_or_copy)
