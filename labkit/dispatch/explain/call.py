"""Why did it run this kernel? Every step of a call, as plain data.

`explain(op, *args)` predicts the call from the arguments' key sets, the thread and the table,
then makes it with a recording of what really ran beside it. It takes labkit's operators and
PyTorch's.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.explain.predict import Hop, OperatorView, first_keys, predict
from labkit.dispatch.explain.steps import Explanation, hop_data, run_data
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.packet import OverloadPacket
from labkit.dispatch.recorder import KernelRun
from labkit.dispatch.recording import recording
from labkit.dispatch.schema import Schema
from labkit.dispatch.situation import Situation


def explain(op: Any, *args: Any, **kwargs: Any) -> Explanation:
    """The call is made, and explained.

    op   a labkit operator or packet; torch.ops.aten.add.Tensor, torch.ops.aten.add, or the name
         "aten::add.Tensor"

    An error of the call is reported in `raised`, not raised: a missing kernel is a thing to
    explain. An operator that writes its argument writes it.

    Raises   TypeError   op is no operator, or the arguments do not fit its schema
    """
    return explain_call(op, args, kwargs)


def explain_call(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, run: bool = True, below: bool = True
) -> Explanation:
    """As `explain`, with a choice.

    run    False: only predict
    below  observe which operators run below this one (PyTorch's operators only)
    """
    if isinstance(op, OverloadPacket):
        op = op.resolve(*args, **kwargs)
    if isinstance(op, OperatorHandle):
        return _explain_labkit(op, args, kwargs, run)
    return _explain_torch(op, args, kwargs, run, below)


def _explain_labkit(
    op: OperatorHandle, args: tuple[Any, ...], kwargs: dict[str, Any], run: bool
) -> Explanation:
    from labkit.dispatch import labkit_operator

    op.schema.stack(args, kwargs)
    view = labkit_operator.view(op)
    situation = labkit_operator.situation(op, args, kwargs)
    hops = predict(view, situation)
    made = _explanation(op.name, "labkit", op.schema, hops)
    stale = op.stale_slots()
    if stale:
        made.note = f"the stored table is stale in {len(stale)} slots: {', '.join(map(str, stale))}"
    if run:
        _run(made, view, hops, lambda: op(*args, **kwargs), recording(op.dispatcher))
    return made


def _explain_torch(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: bool, below: bool
) -> Explanation:
    import torch  # labkit's own operators need none

    from labkit.dispatch import torch_operator, torch_recording

    op = torch_operator.resolve(op, args, kwargs)
    view = torch_operator.view(op, args, kwargs)
    situation = torch_operator.situation(op, args, kwargs)
    hops = predict(view, situation)
    schema = torch_operator.schema_of(op)
    made = _explanation(op.name(), f"PyTorch {torch.__version__}", schema, hops)
    if torch_operator.is_stale(op.name()):
        made.note = (
            "PyTorch's own check finds the table that calls read different from this one, which "
            "is recomputed from the registrations: a call may run another kernel. Not recorded."
        )
        return made
    if run:
        call: Callable[[], Any] = lambda: op(*args, **kwargs)  # noqa: E731
        if below:
            call = torch_recording.noting_operators_below(made, call)
        backends = torch_operator.backends_of(hops)
        _run(made, view, hops, call, torch_recording.recording_torch(op.name(), backends=backends))
    return made


def _explanation(name: str, side: str, schema: Schema, hops: list[Hop]) -> Explanation:
    data = [hop_data(name, hop, number) for number, hop in enumerate(hops)]
    return Explanation(name, side, str(schema), data, complete=hops[-1].then.kind != "decides")


def _run(
    made: Explanation,
    view: OperatorView,
    hops: list[Hop],
    call: Callable[[], Any],
    recording_it: AbstractContextManager[list[KernelRun]],
) -> None:
    """Make the call inside the recording, and compare."""
    with recording_it as runs:
        try:
            made.result = call()
        except Exception as error:
            made.raised = f"{type(error).__name__}: {error}"
    mine = [run for run in runs if run.operator == made.operator]
    made.agrees = agreement(hops, mine, raised=made.raised is not None)
    if made.agrees:
        _show_what_arrived(made.hops, mine)
    made.recorded = []
    around: list[KernelRun] = []
    for number, run in enumerate(mine):
        around = [outer for outer in around if outer.depth < run.depth]
        how = run.via or how_reached(view, run, around[-1] if around else None)
        made.recorded.append(run_data(run, how, number < len(hops)))
        around.append(run)


def _show_what_arrived(hops: list[dict[str, Any]], runs: list[KernelRun]) -> None:
    """Arguments of the later calls are as the kernels met them: autocast casts, vmap unwraps."""
    with_kernel = [hop for hop in hops if hop["kernel"]]
    for hop, run in list(zip(with_kernel, runs, strict=False))[1:]:
        if len(hop["arguments"]) == len(run.met):  # a redispatch has none: it looks at no tensor
            for argument, met in zip(hop["arguments"], run.met, strict=True):
                argument["what"] = met


def agreement(hops: list[Hop], runs: list[KernelRun], *, raised: bool = False) -> bool:
    """True when what ran is what was predicted, as far as the prediction goes.

    It goes to the first kernel that decides for itself, or to the end. Hops that are only assumed
    (a mode passes the call on) may be missing, from the first of them on; so may those below a
    kernel that an error left.
    """
    predicted = [(hop.slot, hop.keys) for hop in hops if hop.cell.kernel is not None]
    ran = [(run.slot, run.keys) for run in runs]
    if hops[-1].then.kind == "decides":
        ran = ran[: len(predicted)]
    if raised and runs:
        predicted = predicted[: len(ran)]
    certain = sum(not hop.assumed for hop in hops if hop.cell.kernel is not None)
    return ran == predicted or (len(ran) == certain and ran == predicted[:certain])


def how_reached(view: OperatorView, run: KernelRun, around: KernelRun | None) -> str:
    """How a recorded kernel was reached, seen from what it met.

    call        a first dispatch with its tensors, on its thread, gives its key set
    redispatch  the kernel around it is known to redispatch with its key set
    unknown     neither
    """
    if around is not None:
        outer = _situation_of(around)
        then = view.next_step(view.cells[around.keys.table_index()], around.keys, outer)
        if then.kind == "redispatch" and then.keys == run.keys:
            return "redispatch"
    _, with_tls, mask = first_keys(view.masks, _situation_of(run))
    return "call" if with_tls & mask == run.keys else "unknown"


def _situation_of(run: KernelRun) -> Situation:
    tensors = tuple((f"[{i}]", _Keys(keys)) for i, keys in enumerate(run.tensors))
    return Situation(tensors, run.included, run.excluded)


class _Keys:
    """A tensor of which only the key set is left."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self._key_set = keys
