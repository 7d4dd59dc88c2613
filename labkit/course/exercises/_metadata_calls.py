"""Chains of calls that make and reshape a tensor, and the metadata of the last result."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, Wrong
from labkit.course.exercises._dtype_steps import NAMES
from labkit.course.exercises._never_right import BANNED, FIRST
from labkit.course.exercises.strides import seen

VIEWS = ("transpose", "permute", "select", "narrow", "expand", "unsqueeze", "squeeze")
COPIES = ("contiguous", "channels_last", "to")
LIKES = ("zeros_like", "empty_like", "full_like")

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def _factory(rng: Rng, size: int) -> Call:
    sizes = rng.sizes(rank=min(4, 1 + size // 2), largest=4, smallest=1)
    if rng.chance(0.05):
        sizes = (*sizes, 0)
    options: dict[str, Any] = {"dtype": rng.choice(NAMES[:10])} if rng.chance(0.4) else {}
    name = rng.choice(("zeros", "ones", "empty", "full", "arange", "eye"))
    if name == "full":
        value = rng.choice((True, 7, 2.5, 1j))
        return name, (sizes, value), {} if isinstance(value, complex) else options
    if name == "arange":
        return name, (rng.choice((5, 6, 5.0)),), {} if options.get("dtype") == "bool" else options
    if name == "eye":
        return name, (rng.randint(1, 4), rng.randint(1, 4)), options
    return name, (sizes,), options


def _dense(tensor: torch.Tensor) -> bool:
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return bool(tensor.numel())


def _next_call(rng: Rng, tensor: torch.Tensor) -> Call | None:
    """A call that the tensor accepts."""
    ndim, sizes = tensor.dim(), tuple(tensor.shape)
    name = rng.choice(
        ("transpose", "select", "narrow", "expand", "unsqueeze", "squeeze", "permute", "like",
         "like", "like", "channels_last", "contiguous", "to")
    )  # fmt: skip
    dim = rng.randint(-ndim, ndim - 1) if ndim else 0
    if name == "like" and _dense(tensor):
        options = {"dtype": rng.choice(NAMES[:10])} if rng.chance(0.3) else {}
        if rng.chance(0.6):
            return "full_like", (rng.choice((2, 2.5)),), options
        return rng.choice(("zeros_like", "empty_like")), (), options
    if name == "channels_last" and ndim == 4 and tensor.numel():
        return name, (), {}
    if name == "contiguous":
        return name, (), {}
    if name == "to" and _dense(tensor) and not tensor.is_complex():
        return name, (rng.choice(NAMES[:10]),), {}
    if name == "unsqueeze" and ndim < 5:
        return name, (rng.randint(-ndim - 1, ndim),), {}
    if not ndim:
        return None
    if name == "transpose":
        return name, (dim, rng.randint(-ndim, ndim - 1)), {}
    if name == "permute":
        return name, (tuple(rng.sample(range(ndim), ndim)),), {}
    if name == "select" and sizes[dim]:
        return name, (dim, rng.randint(-sizes[dim], sizes[dim] - 1)), {}
    if name == "narrow":
        start = rng.randint(0, sizes[dim])
        return name, (dim, start, rng.randint(0, sizes[dim] - start)), {}
    if name == "expand":
        grown = tuple(3 if n == 1 else n for n in sizes)
        return name, ((2, *grown) if rng.chance(0.3) and ndim < 4 else grown,), {}
    return ("squeeze", (dim,), {}) if name == "squeeze" else None


def _apply(tensor: torch.Tensor | None, call: Call) -> torch.Tensor:
    name, arguments, options = call
    named = {key: getattr(torch, value) for key, value in options.items()}
    result: torch.Tensor
    if name == "channels_last" and tensor is not None:
        result = tensor.contiguous(memory_format=torch.channels_last)
    elif name == "to" and tensor is not None:
        result = tensor.to(getattr(torch, arguments[0]))
    elif tensor is not None and name not in ("zeros_like", "empty_like", "full_like"):
        result = getattr(tensor, name)(*arguments)
    elif tensor is not None:
        result = getattr(torch, name)(tensor, *arguments, **named)
    else:
        result = getattr(torch, name)(*arguments, **named)
    return result


def _calls(rng: Rng, size: int) -> tuple[list[Call]]:
    calls = [_factory(rng, size)]
    tensor = _apply(None, calls[0])
    for _ in range(size):
        call = _next_call(rng, tensor)
        if call is not None:
            calls.append(call)
            tensor = _apply(tensor, call)
    return (calls,)


def _calls_of(*names: str) -> Callable[[Rng, int], tuple[list[Call]]]:
    """Chains in which every call after the factory is one of these."""

    def case(rng: Rng, size: int) -> tuple[list[Call]]:
        calls = [_factory(rng, size)]
        tensor = _apply(None, calls[0])
        for _ in range(8 * size):
            call = _next_call(rng, tensor)
            if len(calls) <= size and call is not None and call[0] in names:
                calls.append(call)
                tensor = _apply(tensor, call)
        return (calls,)

    case.__module__ = __name__
    return case


def _two_views(case: Case, got: Any, right: Any) -> Any:
    """The view that the answer describes beside the right one, over one memory."""
    from labkit import show  # drawing is for a failing case alone

    tensor = _last_tensor(*case.inputs)
    sizes, strides, offset, _ = got
    memory = torch.arange(
        offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    )
    yours = torch.as_strided(memory, sizes, strides, offset)
    theirs = torch.as_strided(
        torch.arange(tensor.untyped_storage().nbytes() // max(1, tensor.itemsize)),
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
    )
    return show.strides(yours, theirs, names=("yours", "right"), compare=True)


def _last_tensor(calls: list[Call]) -> torch.Tensor:
    tensor = _apply(None, calls[0])
    for call in calls[1:]:
        tensor = _apply(tensor, call)
    return tensor


def _metadata(calls: list[Call]) -> tuple[str, str]:
    tensor = _last_tensor(calls)
    view = seen(tensor.shape, tensor.stride(), tensor.storage_offset())
    return view, str(tensor.dtype).removeprefix("torch.")


def _judge_metadata(case: Case, got: Any) -> str | Wrong | None:
    view, dtype = _metadata(*case.inputs)
    right = f"{view}, {dtype}"
    if not isinstance(got, (tuple, list)) or len(got) != 4:
        return Wrong("the answer is (sizes, strides, offset, dtype name)", right)
    sizes, strides, offset, name = got
    if name != dtype:
        return Wrong("the dtype", right)
    if len(sizes) != len(strides) or seen(sizes, strides, offset) != view:
        return Wrong("sizes, strides and offset", right)
    return None


def _fewer_calls(calls: list[Call]) -> Any:
    for end in range(1, len(calls)):
        yield (calls[:end],)


def _last_call(evidence: Any) -> str:
    return str(evidence.inputs[0][-1][0]) if evidence.inputs else ""


metadata_from_call = Exercise(
    id="tensors.metadata_from_call",
    rung="boss",
    stages=(
        Stage("factories", case=_calls_of()),
        Stage("views", case=_calls_of(*VIEWS)),
        Stage("copies", case=_calls_of(*VIEWS, *COPIES)),
        Stage("likes", case=_calls_of(*LIKES)),
        Stage("together"),
    ),
    picture=_two_views,
    rules=("no tensor may be created: no torch, no NumPy, no labkit",),
    case=_calls,
    judge=_judge_metadata,
    smaller=_fewer_calls,
    cases=300,
    minutes=25,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "Your offset or strides are wrong after select: the axis goes, and index * stride of "
            "that axis is added to the offset.",
            when=lambda evidence: _last_call(evidence) == "select",
        ),
        Hint(
            "The like variants, and to(), preserve the format: a dense input keeps its strides, "
            "in whatever order its axes lie. Only the offset starts again at 0.",
            when=lambda evidence: (
                _last_call(evidence).endswith("_like") or _last_call(evidence) == "to"
            ),
        ),
        Hint(
            "full and arange look at the Python number: bool gives bool, int gives int64, float "
            "gives float32, complex gives complex64; dtype= wins over all of them.",
            when=lambda evidence: evidence.property == "the dtype",
        ),
        "contiguous() and to() return the same tensor, offset and all, when nothing has to change.",
        "One rule per operation, in a dictionary.",
    ),
    must_fail=(
        "row-major strides for everything",
        "gives full and arange the default dtype",
        "forgets the offset of select",
        "stride 1 for expanded dims",
        "full_like loses the memory format",
        BANNED,
        FIRST,
        "is right only for square, even or contiguous shapes",
    ),
)
