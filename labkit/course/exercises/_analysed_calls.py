"""Calls in five contexts: which slots each enters, who brings the keys, and a call for a path.

Source   c10/core/DispatchKeySet.h  DispatchKeySet::highestPriorityTypeId
         aten/src/ATen/autocast_mode.cpp  cached_cast
"""

from typing import Any

import torch

from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raised,
    Rng,
    Stage,
    Wrong,
    handed_out,
)
from labkit.dispatch.contexts import explain_in

CONTEXTS = ("plain", "no_grad", "inference_mode", "autocast", "mode")
PAIRS = (
    ("plain", "plain"), ("inference", "plain"), ("plain", "inference"), ("inference", "inference"),
    ("meta", "meta"),
)  # fmt: skip
"""What the two factors are: made in inference mode, of the device meta, or neither."""
PATHS = (
    ("plain", ("AutogradCPU", "CPU")),
    ("plain", ("AutogradMeta", "Meta")),
    ("no_grad", ("AutogradCPU", "CPU")),
    ("no_grad", ("AutogradMeta", "Meta")),
    ("inference_mode", ("CPU",)),
    ("inference_mode", ("Meta",)),
    ("autocast", ("AutocastCPU", "AutogradCPU", "CPU")),
    ("autocast", ("AutogradMeta", "Meta")),
    ("mode", ("PythonTLSSnapshot", "AutogradCPU", "Python", "CPU")),
    ("plain", ("CPU",)),
    ("no_grad", ("CPU",)),
    ("plain", ("Meta",)),
)  # fmt: skip
"""(the context, the slots that a product of two matrices enters there): each has an argument."""


def _paths(only: Any = None) -> Any:
    listed = [one for one in PATHS if only is None or only(*one)]

    def case(rng: Rng, size: int) -> tuple[str, Any, str]:
        context, path = listed[min(size, len(listed) - 1)]
        return "argument", path, context

    return case


def _calls(contexts: tuple[str, ...] = CONTEXTS, pairs: Any = PAIRS) -> Any:
    listed = [(context, pair) for pair in pairs for context in contexts]

    def case(rng: Rng, size: int) -> tuple[str, Any, str]:
        context, pair = listed[size % len(listed)]
        return "hops", pair, context

    return case


def _both(rng: Rng, size: int) -> tuple[str, Any, str]:
    asked: tuple[str, Any, str] = (_calls() if size % 2 else _paths())(rng, size // 2)
    return asked


@handed_out
def _made(kind: str) -> torch.Tensor:
    with torch.inference_mode(kind == "inference"):
        return torch.ones(2, 2, device="meta" if kind == "meta" else "cpu")


@handed_out
def _drive(answer: Any, asked: str, what: Any, context: str) -> Any:
    hops, argument_for = answer
    if asked == "argument":
        return argument_for(what, context)
    return [(str(slot), list(brought)) for slot, brought in hops(context, *map(_made, what))]


def _recorded(context: str, x: Any, y: Any) -> list[tuple[str, list[int]]]:
    """The slots that a product enters, each with the numbers of the factors that have its key."""
    call = explain_in(context, torch.ops.aten.mm.default, x, y, below=False)
    return [
        (hop["slot"], [at for at, bits in enumerate(hop["tensor_bits"]) if _has(bits, hop["slot"])])
        for hop in call.recorded or []
    ]


def _has(bits: int, slot: str) -> bool:
    keys = torch._C.DispatchKeySet.from_raw_repr(bits)
    return bool(keys.has(getattr(torch._C.DispatchKey, slot)))


def _taken(context: str, x: Any) -> list[str] | str:
    try:
        return [slot for slot, _ in _recorded(context, x, x)]
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _judge(case: Case, got: Any) -> str | Wrong | None:
    asked, what, context = case.inputs
    if isinstance(got, Raised):
        return "the answer returns"
    if asked == "hops":
        right = _recorded(context, *map(_made, what))
        return None if got == right else Wrong("the slots, and who brings their keys", right)
    if not isinstance(got, torch.Tensor):
        return "a tensor comes back"
    taken = _taken(context, got)
    return None if taken == list(what) else f"the call takes {list(what)}; yours takes {taken}"


def _is_inference(context: str, path: tuple[str, ...]) -> bool:
    return context != "inference_mode" and len(path) == 1


def _said(asked: str, what: Any, context: str) -> str:
    if asked == "argument":
        return f"path {list(what)}, context {context!r}"
    return f"hops in {context!r}, x is {what[0]}, y is {what[1]}"


def _in(context: str, asked: str = "hops") -> Any:
    return lambda e: e.kind == "value" and (e.inputs[0], e.inputs[2]) == (asked, context)


def _brings(evidence: Evidence) -> bool:
    return evidence.inputs[0] == "hops" and "inference" in evidence.inputs[1]


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The call, hop by hop, as it was recorded."""
    from labkit import show

    asked, what, context = case.inputs
    pair = map(_made, what) if asked == "hops" else (got, got)
    if asked == "argument" and not isinstance(got, torch.Tensor):
        return None
    return show.dispatch(torch.ops.aten.mm.default, *pair, contexts=[context])


analyse_the_dispatcher = Exercise(
    id="practical_exercises.analyse_the_dispatcher",
    case=_both,
    judge=_judge,
    drive=_drive,
    show=_said,
    picture=_drawn,
    cases=50,
    sizes=49,
    minutes=15,
    rules=("the calls are not made: no explain_in", "nothing is registered: no torch.library"),
    banned=("labkit.dispatch.contexts.explain_in", "torch.library.*"),
    stages=(
        Stage("hops, plain", cases=3, case=_calls(("plain", "no_grad"), PAIRS[:1])),
        Stage("hops, who brings", cases=20, case=_calls(("plain", "no_grad", "inference_mode"))),
        Stage("hops in ten calls", cases=50, case=_calls()),
        Stage("a call on the CPU", cases=50,
              case=_paths(lambda c, path: path[-1] == "CPU" and not _is_inference(c, path))),
        Stage("on meta", cases=50,
              case=_paths(lambda c, path: path[-1] == "Meta" and not _is_inference(c, path))),
        Stage("all"),
    ),
    hints=(
        Hint("Autocast casts the factors first, and goes on with new ones: those have the key of "
             "autograd, whatever the old ones had. On meta it does nothing.", when=_in("autocast")),
        Hint("A mode adds PythonTLSSnapshot before all, and Python before the last. No factor "
             "brings them: an empty list.", when=_in("mode")),
        Hint("inference_mode takes the hop to autograd away, whoever brings its key.",
             when=_in("inference_mode")),
        Hint("A factor with `x.is_inference()` True brings no key of autograd. "
             "Where neither brings it, there is no such hop.", when=_brings),
        Hint("The last slot is Meta: make the tensor with device='meta'.", stage="on meta"),
        Hint("Two dimensions: x is multiplied with itself.", stage="a call on the CPU"),
        Hint(
            "No Autograd slot, and no inference_mode around the call. So the tensor itself has to "
            "lack the key: make it inside torch.inference_mode().",
            when=lambda e: e.inputs[0] == "argument" and _is_inference(e.inputs[2], e.inputs[1]),
        ),
        Hint("no_grad takes no hop away: it is the table's plain call.", when=_in("no_grad")),
        "Begin with the plain call: Autograd of the device, then the device. What does the context "
        "add, or take away? Which factor brings each key?",
    ),
    must_fail=(
        "prints the table row only",
        "ignores thread-local sets",
        "every factor brings every key",
        "autocast keeps the factors",
        "autocast on meta, too",
        "asks labkit for the hops",
        "always the same tensor",
        "meta everywhere",
        "an inference tensor everywhere",
        "requires_grad decides the Autograd slot",
        "registers kernels, so that any call takes the path",
        "catches every exception and returns a default",
    ),
)  # fmt: skip
