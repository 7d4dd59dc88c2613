"""Tensors: the dtype of a mixed expression, who shares memory, and metadata without a tensor."""

import warnings
from typing import Any

import numpy as np
import torch

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong
from labkit.course.exercises.strides import seen

NOTEBOOK = "1_fundamentals/3_tensors"

NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128",
)  # fmt: skip
NUMBERS = (True, 3, 200, 1.5, 2 + 1j)


# --- promote


def _operands(rng: Rng, size: int) -> tuple[list[tuple[str, Any]], str]:
    operands: list[tuple[str, Any]] = []
    for _ in range(1 + rng.randint(0, 1 + size // 2)):
        kind = rng.choice(("dimensioned", "zero-dim", "number"))
        operands.append((kind, rng.choice(NUMBERS if kind == "number" else NAMES)))
    return operands, rng.choice(("float32", "float64"))


def _promoted(operands: list[tuple[str, Any]], default: str) -> str:
    """By the rebuilt rules, which `labkit conformance promotion` holds to the installed torch."""
    before = promotion.get_default_dtype()
    promotion.set_default_dtype(dtypes.dtype(default))
    try:
        described: list[Any] = []
        for kind, what in operands:
            operand = promotion.WrappedNumber(what if kind == "number" else 0)
            if kind != "number":
                operand.dtype, operand.is_wrapped_number = dtypes.dtype(what), False
                operand.sizes = (1,) if kind == "dimensioned" else ()
            described.append(operand)
        return promotion.result_type(*described).name
    finally:
        promotion.set_default_dtype(before)


def _fewer_operands(operands: list[tuple[str, Any]], default: str) -> Any:
    for at in range(len(operands)):
        if len(operands) > 1:
            yield operands[:at] + operands[at + 1 :], default


def _kinds(evidence: Any) -> set[str]:
    return {kind for kind, _ in evidence.inputs[0]} if evidence.inputs else set()


promote = Exercise(
    id="tensors.promote",
    statement=(
        "Write promote(operands, default): operands is a list of ('dimensioned', dtype name), "
        "('zero-dim', dtype name) or ('number', a Python number); default is 'float32' or "
        "'float64'. Return the name of the dtype an operator computes in."
    ),
    rules=("a lattice over the dtypes, no torch call, no labkit call, no NumPy",),
    case=_operands,
    expected=_promoted,
    smaller=_fewer_operands,
    cases=400,
    sizes=6,
    minutes=20,
    difficulty=3,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "Wrong for {input}: does either of the two hold every value of the other? uint8 with "
            "int8 needs int16; float16 with bfloat16 needs float32.",
            when=lambda evidence: (
                len(evidence.inputs[0]) > 1 and _kinds(evidence) in ({"dimensioned"}, {"zero-dim"})
            ),
        ),
        Hint(
            "A Python number has a kind (bool, int, float, complex) but no width: it changes the "
            "answer only when its kind is higher than everything else, and then the default "
            "dtype gives the width.",
            when=lambda evidence: "number" in _kinds(evidence),
        ),
        "Split the operands into the three categories first, and promote inside each.",
        "Take the highest category that is not empty. A lower one counts only if its kind is "
        "higher (bool < int < float < complex); complex from below keeps the width of a float "
        "above.",
    ),
    must_fail=(
        "promotes by item size",
        "lets Python numbers widen",
        "ignores the default dtype for bool + float number",
        "treats 0-dim like dimensioned",
        "a table for the printed examples",
        "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
        "remembers the answer of the first random case and returns it for all later cases",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)


# --- share_or_copy

CALLS = ("tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack")
CODES = (
    "same_memory", "always_copies", "no_buffer", "other_dtype", "other_device", "negative_strides",
)  # fmt: skip


def _creation(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    call = rng.choice(CALLS)
    arrays_only = call in ("from_numpy", "from_dlpack")
    source = "ndarray" if arrays_only else rng.choice(("ndarray", "ndarray", "tensor", "list"))
    have = rng.choice(("float32", "float64", "int32", "int64"))
    asked = None if arrays_only or rng.chance(0.5) else rng.choice((have, "float32", "int64"))
    negative = source == "ndarray" and call != "from_dlpack" and rng.chance(0.25)
    writable = negative or source != "ndarray" or rng.chance(0.7)
    device = "meta" if not arrays_only and rng.chance(0.2) else "cpu"
    if device == "meta" and negative:
        negative = False
    return (
        {
            "call": call,
            "source": source,
            "source_dtype": have,
            "dtype": asked,
            "device": device,
            "step": -1 if negative else 1,
            "writable": writable,
        },
    )


def _created(call: dict[str, Any]) -> tuple[str, Any]:
    """What really happens: "shares", "copies" or "raises"."""
    array = np.arange(6).astype(call["source_dtype"])[:: call["step"]]
    array.flags.writeable = call["writable"]
    source: Any = array
    if call["source"] == "list":
        source = array.tolist()
    elif call["source"] == "tensor":
        source = torch.arange(6).to(getattr(torch, call["source_dtype"]))
    options = {}
    if call["call"] not in ("from_numpy", "from_dlpack"):
        options["device"] = call["device"]
        if call["dtype"]:
            options["dtype"] = getattr(torch, call["dtype"])
    try:
        with warnings.catch_warnings():  # tensor(tensor), and arrays that must not be written
            warnings.simplefilter("ignore")
            made = getattr(torch, call["call"])(source, **options)
    except ValueError:
        return "raises", None
    if call["source"] == "list" or made.device.type != "cpu":
        return "copies", made
    address = source.data_ptr() if call["source"] == "tensor" else array.ctypes.data
    return "shares" if made.data_ptr() == address else "copies", made


def _sharing(call: dict[str, Any]) -> tuple[str, str]:
    verdict, _ = _created(call)
    if verdict != "copies":
        return verdict, {"shares": "same_memory", "raises": "negative_strides"}[verdict]
    if call["call"] == "tensor":
        return verdict, "always_copies"
    if call["source"] == "list":
        return verdict, "no_buffer"
    other_device = call["device"] != "cpu"
    return verdict, "other_device" if other_device else "other_dtype"


def _judge_sharing(case: Case, got: Any) -> str | Wrong | None:
    verdict, code = right = _sharing(*case.inputs)
    if isinstance(got, Raised):
        return Wrong("the function answers for every call", right)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return Wrong("the answer is a pair (verdict, code)", right)
    if got[0] != verdict:
        return Wrong("the verdict is what the call really does", right)
    return None if got[1] == code else Wrong("the code names the reason", right)


def _asked(evidence: Any) -> dict[str, Any]:
    return evidence.inputs[0] if evidence.inputs else {}


share_or_copy = Exercise(
    id="tensors.share_or_copy",
    statement=(
        "Write share_or_copy(call): call is a dictionary with call (tensor, as_tensor, asarray, "
        "from_numpy, from_dlpack), source (ndarray, tensor, list), source_dtype, dtype (the one "
        "asked for, or None), device, step (-1 for an array read backwards) and writable. Return "
        "(verdict, code): 'shares', 'copies' or 'raises', and the first of these codes that "
        "applies: negative_strides, always_copies, no_buffer, other_device, other_dtype, "
        "same_memory."
    ),
    rules=("predict, do not run: no torch, no NumPy, no labkit",),
    case=_creation,
    judge=_judge_sharing,
    cases=240,
    minutes=15,
    difficulty=2,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "The failing call reads an array backwards. torch has no negative strides: it can "
            "neither describe that memory nor copies it for you.",
            when=lambda evidence: _asked(evidence).get("step") == -1,
        ),
        Hint(
            "The failing call asks for a dtype or a device. Sharing means the same bytes: can "
            "they be read as the other dtype, or be in two places?",
            when=lambda evidence: (
                _asked(evidence).get("dtype") is not None or _asked(evidence).get("device") != "cpu"
            ),
        ),
        "Sharing needs a source with one buffer that torch can describe, the same dtype and the "
        "same device. Whether you may write to it does not matter: torch only warns.",
        "Ask the questions in the order of the codes and stop at the first that applies.",
    ),
    must_fail=(
        "from_numpy always shares",
        "as_tensor always copies",
        "ignores a dtype change",
        "ignores device",
        "remembers the answer of the first random case and returns it for all later cases",
        "returns the literal answer of the example in the statement",
        "catches every exception and returns a default",
    ),
)


# --- metadata_from_call

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


def _metadata(calls: list[Call]) -> tuple[str, str]:
    tensor = _apply(None, calls[0])
    for call in calls[1:]:
        tensor = _apply(tensor, call)
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
    statement=(
        "Write metadata_from_call(calls): a list of (name, arguments, options), first a factory "
        "(zeros, ones, empty, full, arange, eye), then view calls (transpose, permute, select, "
        "narrow, expand, unsqueeze, squeeze), copies (contiguous, channels_last, to) and like "
        "variants (zeros_like, empty_like, full_like; only on dense tensors). Return (sizes, "
        "strides, offset, dtype name) of the last result. The default dtype is float32."
    ),
    rules=("no tensor may be created: no torch, no NumPy, no labkit",),
    case=_calls,
    judge=_judge_metadata,
    smaller=_fewer_calls,
    cases=300,
    minutes=25,
    difficulty=3,
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
        "forgets the offset of select",
        "stride 1 for expanded dims",
        "full_like loses the memory format",
        "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
        "is right only for square, even or contiguous shapes",
    ),
)

EXERCISES = (promote, share_or_copy, metadata_from_call)
