"""What backward keeps: losses without their graphs, and the bytes of a graph in two steps."""

import functools
import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Stage
from labkit.course.exercises._beside import beside
from labkit.course.exercises._mean_loss import mean_of
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._small_models import Step, a_model, unwatched

NOTEBOOK = "1_fundamentals/6b_kept_for_backward"

ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"


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
    return {"bytes": sum(found.values()), "tensors alive afterwards": 0, "runs of model": 1}


def _drive_saved(answer: Any, model: nn.Module, x: torch.Tensor) -> dict[str, Any]:
    """What the answer says, and what it leaves behind: watched storage by storage.

    A model that is not `watched` is asked for its bytes alone.
    """
    if not getattr(model, "watched", True):
        return {"bytes": answer(model, x), "tensors alive afterwards": 0, "runs of model": 1}
    made: list[StorageWeakRef] = []
    given = x.untyped_storage().data_ptr()

    class Watch:
        def __call__(self, module: Any, inputs: Any, output: torch.Tensor) -> None:
            if output.untyped_storage().data_ptr() != given:
                made.append(StorageWeakRef(output.untyped_storage()))

    runs: list[nn.Module] = []
    watches = [step.register_forward_hook(Watch()) for step in model.children()]
    watches.append(model.register_forward_pre_hook(lambda module, inputs: runs.append(module)))
    try:
        result = answer(model, x)
    finally:
        for watch in watches:
            watch.remove()
    if any(not one.expired() for one in made):
        gc.collect()  # a cycle of the answer's is no leak
    alive = sum(not one.expired() for one in made)
    return {"bytes": result, "tensors alive afterwards": alive, "runs of model": len(runs)}


def _model_in_words(model: nn.Module, x: torch.Tensor) -> str:
    names = ", then ".join(step.in_words for step in model.children() if isinstance(step, Step))
    asks = ", requires_grad" if x.requires_grad else ""
    return f"model: {names}; x: {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}{asks}"


def _graph(case: Case, got: Any, right: Any) -> Any:
    """The graph of the model's result, with what every node saved."""
    from labkit import show

    model, x = case.inputs
    result = model(x)
    return show.graph(result) if result.requires_grad else None


def _is_off_by(evidence: Evidence, tensors: Iterable[torch.Tensor]) -> bool:
    """Too much by some of these tensors, each of them once."""
    off = evidence.value["bytes"] - evidence.right["bytes"]
    sums = functools.reduce(lambda s, t: s | {one + t.nbytes for one in s}, tensors, {0})
    return off > 0 and off in sums


def _leaves_out_x(evidence: Evidence) -> bool:
    x = evidence.inputs[1]
    less = evidence.right["bytes"] - evidence.value["bytes"]
    return bool(less == x.untyped_storage().nbytes() > 0)


def _has_step(name: str) -> Any:
    return lambda e: (
        e.value["bytes"] != e.right["bytes"]
        and any(getattr(step, "name", "") == name for step in e.inputs[0].children())
    )


saved_bytes = Exercise(
    id="kept_for_backward.saved_bytes",
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
        Stage("all together, nothing left alive"),
    ),
    minutes=8,
    hints=(
        Hint(
            "The bytes are one thing, what stays alive another: something of the step is still "
            "held after you returned. A list outside the function? Or does pack return the very "
            "tensor it was given? A node that holds its own result is never freed; detach() it.",
            when=lambda e: e.value["tensors alive afterwards"] > 0,
        ),
        Hint(
            "The model ran more than once. What it saves is seen while it runs: run it inside "
            "saved_by alone.",
            when=lambda e: e.value["runs of model"] > 1,
        ),
        Hint(
            "saved_by calls what it is given. model(x) has been called already, and is a tensor: "
            "saved_by(lambda: model(x)).",
            when=lambda e: e.kind == "raised" and "not callable" in e.got,
        ),
        Hint(
            "Too high by a buffer: shift adds a tensor that nobody trains, and the model holds it. "
            "Leave out model.buffers() as well.",
            when=lambda e: _is_off_by(e, e.inputs[0].buffers()),
        ),
        Hint(
            "Too high by what the model itself holds. Collect the storages of parameters and of "
            "buffers, and leave those out. Compare storages, not tensors: linear saves its weight "
            "transposed, another tensor over the same storage.",
            when=lambda e: _is_off_by(e, [*e.inputs[0].parameters(), *e.inputs[0].buffers()]),
        ),
        Hint(
            "Too little by x. It is not the model's: where it is saved, it counts.",
            when=_leaves_out_x,
        ),
        Hint(
            "Too little. Leave out only what is among the saved tensors: not every parameter is "
            "saved.",
            when=lambda e: e.value["bytes"] < e.right["bytes"],
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
        "counts buffers",
        "leaves out x",
        "gives saved_by a tensor, not a function",
        "double-counts views",
        "takes an expanded number for as large as it looks",
        "misses tensors saved by custom functions",
        "keeps tensors alive afterwards",
        "runs the model twice",
        ELSEWHERE,
        FIRST,
    ),
)

EXERCISES = (mean_of, beside, saved_bytes)
