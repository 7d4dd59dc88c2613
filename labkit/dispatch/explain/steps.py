"""An explanation as steps, as plain data and as text."""

from dataclasses import dataclass, field
from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.described import describe
from labkit.dispatch.explain.key_origins import origins
from labkit.dispatch.explain.predict import Hop
from labkit.dispatch.recorder import KernelRun


@dataclass
class Explanation:
    """A call, explained; everything but `result` is plain data.

    operator   full name
    side       "labkit" or "PyTorch 2.13.0"
    schema     the operator's schema
    hops       the predicted kernels, in order (see `hop_data`)
    recorded   the kernels of this operator that really ran; None when nothing was run
    agrees     recorded is what was predicted, as far as the prediction goes; None if not run
    complete   the prediction goes to the end: no kernel on the way decides for itself
    below      operators called below this one, with their depth; None when not observed
    note       what a reader must know besides, or ""
    result     what the call returned
    raised     the error that left the call, as text
    """

    operator: str
    side: str
    schema: str
    hops: list[dict[str, Any]]
    recorded: list[dict[str, Any]] | None = None
    agrees: bool | None = None
    complete: bool = True
    below: list[dict[str, Any]] | None = None
    note: str = ""
    result: Any = field(default=None, repr=False)
    raised: str | None = None

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The call one step at a time, hop after hop, and the way back.

        Each step has `kind`, `hop` (which hop it belongs to), `text`, `bits` (the word after the
        step, or None) and `keys` (its names). The kinds of a hop are argument, union, include,
        exclude, mask, winner, cell, kernel; a redispatch has `redispatch` in place of the first
        five. Then come a `return` for each hop but the last, and `end`.
        """
        return steps_of(self)

    def data(self) -> dict[str, Any]:
        """Everything but the result, for a widget or a file."""
        kept = {name: value for name, value in vars(self).items() if name != "result"}
        return {**kept, "steps": self.steps}

    def __str__(self) -> str:
        return as_text(self)


def names(keys: DispatchKeySet | int | None) -> list[str]:
    """Runtime key names in a set, weakest first."""
    if keys is None:
        return []
    return [key.name for key in (keyset(keys) if isinstance(keys, int) else keys)]


def hop_data(operator: str, hop: Hop, number: int) -> dict[str, Any]:
    """One predicted hop.

    operator, number, via ("call" | "redispatch"), assumed
    arguments      [{name, what, bits, keys, origins: [{key, why}]}]; [] for a redispatch
    union_bits     OR of the arguments                           (None for a redispatch)
    included_bits, excluded_bits   the thread's sets
    with_tls_bits  (union | included) - excluded                 (None for a redispatch)
    mask_bits      keys that do not fall through                 (None for a redispatch)
    skipped        names of the functionalities that fell through
    result_bits    the set the kernel gets
    slot, slot_index, kernel, file, reason, rule, source         the table cell
    then, then_text   "redispatch" | "call" | "ends" | "decides", and the contract in words
    """
    cell = hop.cell
    kernel = cell.kernel.debug if cell.kernel is not None else ""
    return {
        "operator": operator,
        "number": number,
        "via": hop.via,
        "assumed": hop.assumed,
        "arguments": [argument_data(path, tensor) for path, tensor in hop.situation.tensors]
        if hop.via == "call"
        else [],
        "union_bits": _raw(hop.union),
        "included_bits": hop.situation.included.raw,
        "excluded_bits": hop.situation.excluded.raw,
        "with_tls_bits": _raw(hop.with_tls),
        "mask_bits": _raw(hop.mask),
        "skipped": [key.name for key in hop.skipped],
        "result_bits": hop.keys.raw,
        "slot": hop.slot.name,
        "slot_index": hop.keys.table_index(),
        "kernel": kernel,
        "file": kernel.removeprefix("registered at ").rpartition(":")[0],
        "reason": cell.reason,
        "rule": cell.rule,
        "source": cell.source.name if cell.source is not None else None,
        "then": hop.then.kind,
        "then_text": hop.then.text,
    }


def _raw(keys: DispatchKeySet | None) -> int | None:
    return None if keys is None else keys.raw


def argument_data(path: str, tensor: Any) -> dict[str, Any]:
    """One tensor argument: its key set, and where each key came from.

    Of a later hop it is the tensor that was passed in, until a run shows what arrived there.
    """
    keys = key_set_of(tensor) or keyset(0)
    return {
        "name": path,
        "what": describe(tensor),
        "bits": keys.raw,
        "keys": names(keys),
        "origins": [{"key": key, "why": why} for key, why in origins(tensor, keys)],
    }


def run_data(run: KernelRun, via: str, predicted: bool) -> dict[str, Any]:
    """One kernel that really ran.

    operator, slot, bits, keys, kernel, depth, raised
    via        "call" | "redispatch" | "unknown"
    predicted  it is one of the predicted hops; else a kernel that decides for itself caused it
    included_bits, excluded_bits   the thread's sets when it was entered
    tensor_bits                    the key set of each tensor argument
    """
    return {
        "operator": run.operator,
        "via": via,
        "slot": run.slot.name,
        "bits": run.keys.raw,
        "keys": names(run.keys),
        "kernel": run.kernel,
        "depth": run.depth,
        "predicted": predicted,
        "included_bits": run.included.raw,
        "excluded_bits": run.excluded.raw,
        "tensor_bits": [keys.raw for keys in run.tensors],
        "raised": run.raised,
    }


def steps_of(made: Explanation) -> list[dict[str, Any]]:
    """The steps of every hop, then the way back up."""
    steps: list[dict[str, Any]] = []
    for hop in made.hops:
        steps += _steps_of_hop(hop)
    for hop in reversed(made.hops[:-1]):
        text = f"back in the {hop['slot']} kernel, which returns to whoever ran it"
        steps.append(_step("return", hop, None, text))
    end = made.raised or "the call returns"
    steps.append(_step("end", made.hops[0], None, end.partition("\n")[0]))
    return steps


def _steps_of_hop(hop: dict[str, Any]) -> list[dict[str, Any]]:
    steps = []
    if hop["via"] == "call":
        for argument in hop["arguments"]:
            text = f"{argument['name']} is {argument['what']}: it brings {_list(argument['keys'])}"
            steps.append(_step("argument", hop, argument["bits"], text))
        steps.append(_step("union", hop, hop["union_bits"], "all tensor arguments together"))
        text = f"this thread includes {_list(names(hop['included_bits']))}"
        included = hop["union_bits"] | hop["included_bits"]
        steps.append(_step("include", hop, included, text))
        taken = [key for key in names(included) if key not in names(hop["with_tls_bits"])]
        text = f"this thread excludes {len(names(hop['excluded_bits']))} keys: {_list(taken)} go"
        steps.append(_step("exclude", hop, hop["with_tls_bits"], text))
        text = f"the operator's cells for {_list(hop['skipped'])} fall through: skipped"
        steps.append(_step("mask", hop, hop["result_bits"], text))
    else:
        text = f"the kernel calls again, with {_list(names(hop['result_bits']))} alone"
        steps.append(_step("redispatch", hop, hop["result_bits"], text))
    text = f"the highest key left is {hop['slot']}: slot {hop['slot_index']}"
    steps.append(_step("winner", hop, hop["result_bits"], text))
    origin = f", registered for {hop['source']}" if hop["source"] not in (None, hop["slot"]) else ""
    text = f"the slot holds: {hop['reason']} (step {hop['rule']}{origin})"
    steps.append(_step("cell", hop, hop["result_bits"], text))
    text = f"{hop['kernel'] or 'nothing'}: {hop['then_text']}"
    steps.append(_step("kernel", hop, hop["result_bits"], text))
    return steps


def _step(kind: str, hop: dict[str, Any], bits: int | None, text: str) -> dict[str, Any]:
    return {"kind": kind, "hop": hop["number"], "text": text, "bits": bits, "keys": names(bits)}


def _list(items: list[str]) -> str:
    return ", ".join(items) or "nothing"


def as_text(made: Explanation) -> str:
    """The explanation for a terminal: a line per hop, then what really ran."""
    lines = [f"{made.schema}   [{made.side}]"]
    for hop in made.hops:
        mark = "?" if hop["assumed"] else " "
        origin = f" from {hop['source']}" if hop["source"] not in (None, hop["slot"]) else ""
        lines.append(
            f" {mark}{hop['number'] + 1}. {hop['via']:<10} {hop['slot']:<30} "
            f"{hop['reason']}{origin} [{hop['file'].rpartition('/')[2]}]"
        )
        lines.append(f"       {hop['then_text']}")
    if made.recorded is not None:
        ran = " -> ".join(run["slot"] for run in made.recorded) or "nothing"
        verdict = "as predicted" if made.agrees else "NOT as predicted"
        more = "" if made.complete else ", as far as a prediction can go"
        lines.append(f"  really ran: {ran} ({verdict}{more})")
    if made.below:
        lines.append("  called below it:")
        lines += [f"    {'  ' * entry['depth']}{entry['operator']}" for entry in made.below]
    lines += [f"  raised {made.raised.splitlines()[0]}"] if made.raised else []
    lines += [f"  note: {made.note}"] if made.note else []
    return "\n".join(lines)
