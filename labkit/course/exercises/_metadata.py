"""What a TensorImpl knows of its tensor, asked of tensors of every kind.

Source   c10/core/TensorImpl.h  TensorImpl
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.review.rows import Rows


@handed_out
def _view(x: Any) -> Any:
    return x[1:, ::2].t()


@handed_out
def _written(x: Any) -> Any:
    return x.add_(1).mul_(2)


@handed_out
def _in_inference(x: Any) -> Any:
    with torch.inference_mode():
        return x.clone()


@handed_out
def _quantised(x: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)


@handed_out
def _compressed(x: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return x.to_sparse_csr()


DENSE: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "a view": _view,
    "written twice": _written,
    "wants a gradient": lambda x: x.requires_grad_(),
    "a result": lambda x: x.requires_grad_() * 2,
    "expanded": lambda x: x[:, :1].expand(x.shape[0], 4),
    "whole numbers": lambda x: x.to(torch.int16),
}
ODD: dict[str, Callable[[Any], Any]] = {
    "conjugate": lambda x: torch.complex(x, x).conj(),
    "its imaginary part": lambda x: torch.complex(x, x).conj().imag,
    "made in inference mode": _in_inference,
    "on meta": lambda x: x.to("meta"),
}
OTHER: dict[str, Callable[[Any], Any]] = {
    "sparse": lambda x: x.relu().to_sparse(),
    "compressed rows": _compressed,
    "quantised": _quantised,
}
KINDS = DENSE | ODD | OTHER


@handed_out
def tensor_of(kind: str, rows: int, cols: int) -> Any:
    """A tensor of this kind, made of a matrix of so many numbers."""
    x = torch.arange(rows * cols, dtype=torch.float32).sub(2).view(rows, cols)
    return KINDS[kind](x.clone())


@handed_out
def finished_metadata(t: Any) -> dict[str, Any]:
    """The fourteen pieces."""
    dense = t.layout == torch.strided
    return {
        "sizes": tuple(t.shape),
        "strides": tuple(t.stride()) if dense else None,
        "offset": t.storage_offset() if dense else None,
        "bytes": t.untyped_storage().nbytes() if dense else None,
        "dtype": t.dtype,
        "device": t.device.type,
        "layout": t.layout,
        "keys": torch._C._dispatch_keys(t).raw_repr(),
        "version": None if t.is_inference() else t._version,
        "requires_grad": t.requires_grad,
        "is_leaf": t.is_leaf,
        "is_conj": t.is_conj(),
        "is_neg": t.is_neg(),
        "is_inference": t.is_inference(),
    }


def _a_tensor(*families: dict[str, Any]) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, int, int]:
        kinds = [kind for family in families for kind in family]
        return rng.choice(kinds), rng.randint(2, 2 + size // 2), rng.randint(2, 3 + size // 2)

    return case


def _rows(case: Case, got: Any, right: Any) -> Any:
    """Each piece: yours, and what the tensor says."""
    if not isinstance(got, dict):
        return None
    rows = [
        ("done" if name in got and got[name] == value else "wrong", name,
         str(got.get(name, "no such key")), str(value))
        for name, value in right.items()
    ]  # fmt: skip
    return Rows(f"a tensor, {case.inputs[0]}", ("piece", "yours", "right"), rows)


def _off(*names: str) -> Any:
    def off(evidence: Evidence) -> bool:
        value, right = evidence.value, evidence.right
        return isinstance(value, dict) and any(value.get(n) != right[n] for n in names)

    return off


metadata_dump = Exercise(
    id="architecture.metadata_dump",
    case=_a_tensor(KINDS),
    expected=lambda *given: finished_metadata(tensor_of(*given)),
    drive=handed_out(lambda answer, *given: answer(tensor_of(*given))),
    show=lambda kind, rows, cols: f"a tensor, {kind}, made of {rows} by {cols} numbers",
    picture=_rows,
    cases=60,
    minutes=8,
    stages=(
        Stage("dense", case=_a_tensor(DENSE), cases=24),
        Stage("odd", case=_a_tensor(ODD), cases=16),
        Stage("other layouts", case=_a_tensor(OTHER), cases=16),
        Stage("all"),
    ),
    hints=(
        Hint("A tensor made in inference mode has no version to ask for. `t.is_inference()` says "
             "whether it is one.", when=lambda e: e.inputs[0] == "made in inference mode"
             and (e.kind == "raised" or _off("version")(e))),
        Hint("This tensor has no strides, no offset and no storage of its own. `t.layout` says so.",
             when=lambda e: e.inputs[0] in OTHER and (e.kind == "raised" or _off("strides", "bytes",
                                                                                "offset")(e))),
        Hint("`bytes` are those of the whole storage, whatever a view shows of it: "
             "`t.untyped_storage()`.", when=_off("bytes")),
        Hint("`keys` is the raw number: `raw_repr()`.", when=_off("keys")),
        "One line for each key; most of them are an attribute or a method of that name.",
        "Which of the fourteen does a sparse tensor not have?",
    ),
    must_fail=(
        "dtype, device and layout only",
        "the version of another tensor",
        "keys as text",
        "storage size in elements",
        "bytes of what the view shows",
        "offset in bytes",
        "fails on other layouts",
        "says None of what is quantised",
        "fails in inference mode",
        "strides as if contiguous",
        "takes what wants a gradient for no leaf",
    ),
)  # fmt: skip
