"""Who owns the bytes: two tensors classified, reshape without memory, what backward keeps."""

import functools
import gc
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raises, Rng, Wrong

NOTEBOOK = "1_fundamentals/6_memory"

Ints = tuple[int, ...]
FIRST = "remembers the answer of the first random case and returns it for all later cases"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
SQUARE = "is right only for square, even or contiguous shapes"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"


# --- share_inspector

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


def _pair(got: str, right: str) -> Any:
    return lambda evidence: (evidence.value, evidence.right) == (got, right)


share_inspector = Exercise(
    id="memory.share_inspector",
    statement=(
        "Write classify(a, b) for two strided torch tensors. Return 'separate' when they have "
        "two storages; else compare the bytes they touch: 'disjoint' (none in common), 'same' "
        "(exactly the same bytes), 'view' (one touches all bytes of the other, and more) or "
        "'overlap' (some in common, and each has others). Names, values, shapes and dtypes do not "
        "matter. An empty tensor touches nothing. Storages have at most 65,536 bytes; an expanded "
        "tensor may have many times as many elements."
    ),
    rules=("any torch call; the tensors stay as they are",),
    case=_two_tensors,
    expected=_relation,
    show=_in_words,
    cases=600,
    sizes=8,
    minutes=20,
    difficulty=3,
    hints=(
        Hint(
            "You say overlap, and the two never touch: {input}. Two views of one storage may "
            "take turns, one the even and one the odd places.",
            when=_pair("overlap", "disjoint"),
        ),
        Hint(
            "An empty tensor has a storage and an address, and touches no byte of it.",
            when=lambda e: any(0 in tensor.shape for tensor in e.inputs),
        ),
        Hint(
            "Offsets and strides count elements. Here an element of a has another size than one "
            "of b: turn both into bytes first. {input}",
            when=lambda e: e.inputs[0].itemsize != e.inputs[1].itemsize,
        ),
        Hint(
            "Same start does not mean same bytes, and equal values do not mean one storage.",
            when=lambda e: e.value == "same",
        ),
        Hint(
            "An axis of stride 0 visits the same bytes again and again. Leave such axes out.",
            when=lambda e: any(0 in tensor.stride() for tensor in e.inputs),
        ),
        "Work out the bytes that each one touches. Once you have two sets, the five answers are "
        "one line each.",
        "One way to the set: a byte tensor as long as the storage, with a view like a's over it; "
        "fill that view with ones.",
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


# --- reshape_or_copy


def _a_reshape(rng: Rng, size: int) -> tuple[Ints, Ints, Ints]:
    sizes = [
        rng.choice((1, 2, 2, 3, 4, 6))
        for _ in range(rng.randint(rng.choice((0, 1, 2)), min(4, 2 + size // 2)))
    ]
    if rng.chance(0.07):
        sizes.insert(rng.randint(0, len(sizes)), 0)
    strides, step = [0] * len(sizes), rng.choice((1, 1, 1, 2))
    order = list(reversed(range(len(sizes))))
    if rng.chance(0.5):
        rng.shuffle(order)
    for dim in order:
        strides[dim] = step
        step *= max(1, sizes[dim])
        if rng.chance(0.2):
            step += rng.choice((1, 2, step))
    for dim, length in enumerate(sizes):
        if length == 1 and rng.chance(0.5):
            strides[dim] = rng.choice((0, 1, 5, 1000))
        elif rng.chance(0.04):
            strides[dim] = 0
    return tuple(sizes), tuple(strides), _target(rng, sizes)


def _target(rng: Rng, sizes: list[int]) -> Ints:
    wanted = list(sizes)
    for _ in range(rng.randint(0, 5)):
        kind = rng.randint(0, 4)
        at = rng.randint(0, len(wanted) - 1) if wanted else 0
        if kind <= 1 and at + 1 < len(wanted):
            wanted[at : at + 2] = [wanted[at] * wanted[at + 1]]
        elif kind == 2 and wanted:
            factors = [f for f in (2, 3, 4, 6) if wanted[at] % f == 0 and wanted[at] >= f]
            if factors:
                factor = rng.choice(factors)
                pair = [factor, wanted[at] // factor]
                wanted[at : at + 1] = pair if rng.chance(0.5) else pair[::-1]
        elif kind == 3:
            wanted.insert(rng.randint(0, len(wanted)), 1)
        elif 1 in wanted:
            wanted.remove(1)
    if wanted and rng.chance(0.25):
        wanted[rng.randint(0, len(wanted) - 1)] = -1
    if wanted and rng.chance(0.08):
        wanted[rng.randint(0, len(wanted) - 1)] = rng.choice((-1, -2, 0, 5))
    return tuple(wanted)


def _reshaped(sizes: Ints, strides: Ints, wanted: Ints) -> Any:
    """Strides of torch's view, None for a copy, Raises for a refusal."""
    reach = 1 + sum(max(0, n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    tensor = torch.empty(reach, dtype=torch.uint8).as_strided(sizes, strides)
    try:
        result = tensor.reshape(wanted)
    except RuntimeError:
        return Raises(RuntimeError)
    if result.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
        return None
    return tuple(result.shape), result.stride()


def _judge_reshape(case: Case, got: Any) -> str | Wrong | None:
    """Strides are compared where an index can reach them: not on axes of size 1, nor when empty."""
    truth = _reshaped(*case.inputs)
    if truth is None or isinstance(truth, Raises):
        return None if got is None else Wrong("reshape has to copy here", None)
    sizes, strides = truth
    if got is None:
        return Wrong("a view will do", strides)
    if not isinstance(got, tuple | list) or len(got) != len(sizes):
        return Wrong(f"one stride per axis of {sizes}", strides)
    if any(type(stride) is not int for stride in got):
        return Wrong("strides are integers", strides)
    seen = [(one, other) for n, one, other in zip(sizes, got, strides, strict=True) if n > 1]
    if 0 not in sizes and any(one != other for one, other in seen):
        return Wrong(f"the strides of the view, sizes {sizes}", strides)
    return None


def _should_be(value: Any) -> Any:
    return lambda evidence: evidence.expected == value


reshape_or_copy = Exercise(
    id="memory.reshape_or_copy",
    statement=(
        "Write reshape_or_copy(sizes, strides, wanted). Return the strides, in elements, that "
        "tensor.reshape(wanted) has when it can be a view of a tensor with these sizes and "
        "strides; None when it has to copy; raise RuntimeError when the shape cannot be. wanted "
        "may hold one -1. Strides of axes of size 1, and of empty results, may be any integers."
    ),
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_a_reshape,
    expected=_reshaped,
    judge=_judge_reshape,
    cases=1500,
    sizes=8,
    minutes=25,
    difficulty=4,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "You refuse nothing on {input}, torch does. Two unknowns, a negative size other than "
            "-1, another number of elements; and a -1 beside a 0 could be anything.",
            when=lambda e: isinstance(e.right, Raises),
        ),
        Hint(
            "There is no element in {input}, so nothing stands in the way of a view.",
            when=lambda e: 0 in e.inputs[0],
        ),
        Hint(
            "There is an axis of size 1 in {input}. Its stride is never multiplied by anything "
            "but 0: leave such axes out on both sides before you compare anything.",
            when=lambda e: 1 in e.inputs[0] or 1 in e.inputs[2],
        ),
        Hint(
            "You copy where torch views: a sliced or transposed tensor keeps whole runs. Group "
            "the old axes that continue each other: stride[d] == size[d + 1] * stride[d + 1].",
            when=lambda e: e.property == "a view will do",
        ),
        Hint(
            "You view where memory has a gap. {input}: inside one new axis the step is the same "
            "all along, so the old axes it covers must continue each other.",
            when=_should_be("None"),
        ),
        "Leave out axes of size 1. Then walk both shapes from the right, one run of old axes at "
        "a time: the new sizes must fill each run exactly.",
    ),
    must_fail=(
        "view only if contiguous",
        "always copies",
        "wrong on size-1 axes",
        "accepts a merge across a gap",
        BANNED,
        FIRST,
        SQUARE,
    ),
)


# --- saved_bytes


class Cube(torch.autograd.Function):  # type: ignore[misc]
    """x**3, with what backward needs saved by hand."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The cube; the square is kept."""
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        """Three times the square."""
        (square,) = ctx.saved_tensors
        return 3 * square * grads[0]


class Step(nn.Module):  # type: ignore[misc]
    """One step of a small model, named by a word.

    Some keep what they read, some what they make, some nothing; `half` keeps a view of half of
    it, `both` one storage in two shapes, `mean` an expanded number, `scale` a parameter.
    """

    def __init__(self, name: str, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.name = name
        if name in ("linear", "tied"):
            self.weight = nn.Parameter(torch.ones(width, width, dtype=dtype))
            self.bias = nn.Parameter(torch.zeros(width, dtype=dtype))
        if name == "scale":
            self.weight = nn.Parameter(torch.ones(width, dtype=dtype))
        if name == "shift":
            self.register_buffer("by", torch.ones(width, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the word says."""
        if self.name == "linear":
            return nn.functional.linear(x, self.weight, self.bias)
        if self.name == "tied":
            return x @ self.weight @ self.weight.t()
        if self.name == "scale":
            return x * self.weight
        if self.name == "shift":
            return x * self.by
        if self.name == "half":
            left = x[:, : x.size(1) // 2]
            return torch.cat([left * left, x[:, x.size(1) // 2 :]], 1)
        if self.name == "both":
            return torch.sin(x) * torch.cos(x.reshape(-1)).view(x.shape)
        if self.name == "mean":
            return x * x.mean().expand(x.shape)
        if self.name == "cube":
            return Cube.apply(x)
        if self.name == "flat":
            return x.t().reshape(-1).view(x.size(1), x.size(0)).t()
        return getattr(torch, self.name)(x)


STEPS = (
    "linear", "linear", "linear", "tied", "scale", "shift", "half", "both", "mean", "cube", "flat",
    "relu", "tanh", "exp", "sigmoid", "sin", "neg",
)  # fmt: skip


def _a_model(rng: Rng, size: int) -> tuple[nn.Module, torch.Tensor]:
    width, batch = rng.randint(2, 3 + 4 * size), rng.randint(1, 2 + 4 * size)
    dtype = rng.choice((torch.float32, torch.float32, torch.float64, torch.bfloat16))
    names = [rng.choice(STEPS) for _ in range(1 + rng.randint(0, size))]
    model = nn.Sequential(*[Step(name, width, dtype) for name in names])
    x = torch.zeros(batch, width, dtype=dtype)
    x.requires_grad_(rng.chance(0.3))
    return model, x


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
    """What the answer says, and what it leaves behind: watched storage by storage."""
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


def _weights(evidence: Evidence) -> list[int]:
    return [p.nbytes for p in evidence.inputs[0].parameters()]


def _off_by_weight(evidence: Evidence) -> bool:
    off = evidence.value["bytes"] - evidence.right["bytes"]
    sums = functools.reduce(lambda s, n: s | {one + n for one in s}, _weights(evidence), {0})
    return off > 0 and off in sums


def _has_step(name: str) -> Any:
    return lambda e: any(getattr(step, "name", "") == name for step in e.inputs[0].children())


saved_bytes = Exercise(
    id="memory.saved_bytes",
    statement=(
        "Write saved_bytes(model, x): run model(x) once and return how many bytes the graph of "
        "the result keeps for backward. Count whole storages, each once, because a view keeps all "
        "of its storage alive. Storages of the model's own parameters and buffers are there "
        "anyway: leave them out, also where a view of them is saved. x counts if it is saved. "
        "When you return, nothing of the step may be left alive."
    ),
    rules=("torch's own tools; model and x stay as they are",),
    case=_a_model,
    expected=_kept,
    drive=_drive_saved,
    show=_model_in_words,
    cases=300,
    seconds=5.0,
    sizes=6,
    minutes=20,
    difficulty=3,
    hints=(
        Hint(
            "The bytes are one thing, what stays alive another: something of the step is still "
            "held after you returned. A list outside the function? Or does pack return the very "
            "tensor it was given? A node that holds its own result is never freed; detach() it.",
            when=lambda e: e.value["tensors alive afterwards"] > 0,
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

EXERCISES = (share_inspector, reshape_or_copy, saved_bytes)
