"""The lines of C++ that make a function an operator: a schema, and a kernel for the CPU."""

import re
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out

SCHEMA = "lltm::cell(Tensor gates, Tensor old) -> (Tensor, Tensor)"
RIGHT = {"schema": SCHEMA, "kernels": ["lltm::cell on CPU is the function cell"]}
BLOCK = re.compile(r"\b(TORCH_LIBRARY(?:_IMPL)?)\s*\(([^)]*)\)\s*\{([^}]*)\}")
DEFINED = r'\b{m}\s*\.\s*def\s*\(\s*"([^"]*)"\s*\)\s*;'
IMPLEMENTED = r'\b{m}\s*\.\s*impl\s*\(\s*"([^"]*)"\s*,\s*(?:&\s*|TORCH_FN\s*\(\s*)?(\w+)[\s)]*;'


@handed_out
def _registered(text: Any) -> dict[str, Any]:
    """What the library would hold after these lines have run, as far as they can be read."""
    if not isinstance(text, str):
        return {"schema": "there is no text", "kernels": []}
    schema, kernels = "no m.def in a TORCH_LIBRARY", []
    for macro, inside, body in BLOCK.findall(re.sub(r"//[^\n]*", "", text)):
        space, *key, m = [word.strip() for word in inside.split(",")]
        if macro == "TORCH_LIBRARY":
            found = re.findall(DEFINED.format(m=re.escape(m)), body)
            schema = _read(f"{space}::{found[0]}") if found else schema
        for name, function in re.findall(IMPLEMENTED.format(m=re.escape(m)), body):
            on = " and ".join(key) or "every backend"
            kernels.append(f"{space}::{name} on {on} is the function {function}")
    return {"schema": schema, "kernels": kernels}


@handed_out
def _read(schema: str) -> str:
    """The schema as PyTorch's own parser reads it."""
    try:
        return str(torch._C.parse_schema(schema))
    except RuntimeError as error:
        return f"PyTorch cannot read {schema!r}: {str(error).strip().partition(chr(10))[0]}"


def _drive(answer: Any) -> dict[str, Any]:
    return _registered(answer())


def _is_right(name: str) -> Any:
    def holds(evidence: Evidence) -> bool:
        return bool(evidence.value[name] == RIGHT[name])

    return holds


def _space(evidence: Evidence) -> str:
    """The namespace of a schema that can be read, or nothing."""
    space, found, _ = evidence.value["schema"].partition("::")
    return space if found and " " not in space else ""


def _no_input(rng: Rng, size: int) -> tuple[()]:
    return ()


registration = Exercise(
    id="cpp_cuda_extension.registration",
    rung="warm-up",
    case=_no_input,
    expected=lambda: RIGHT,
    drive=_drive,
    show=lambda: "none",
    cases=1,
    minutes=4,
    hints=(
        Hint(
            "The schema is right, and no function is put in for tensors on the CPU: "
            "TORCH_LIBRARY_IMPL(lltm, CPU, m) { ... }.",
            when=lambda e: _is_right("schema")(e) and not e.value["kernels"],
        ),
        Hint(
            "The schema is right. Look at the kernel's line: the namespace, the device and the "
            "operator's name have to be those of the schema.",
            when=_is_right("schema"),
        ),
        Hint(
            "Two tensors come out. The schema says so with brackets: -> (Tensor, Tensor).",
            when=lambda e: e.value["schema"].startswith(SCHEMA.partition(" -> ")[0]),
        ),
        Hint(
            "The namespace stands in both macros. It is lltm, as in torch.ops.lltm.cell.",
            when=lambda e: "::" in e.value["schema"] and _space(e) not in ("lltm", ""),
        ),
        Hint(
            "These are other arguments than `cell` has: first Tensor gates, then Tensor old, and "
            "it writes to neither.",
            when=lambda e: _space(e) == "lltm" and e.value["schema"] != SCHEMA,
        ),
        Hint(
            "PyTorch has no such schema. Each argument is a type and a name: Tensor gates.",
            when=lambda e: "cannot read" in e.value["schema"],
        ),
        "Two blocks, as in the example: TORCH_LIBRARY with m.def, TORCH_LIBRARY_IMPL with m.impl.",
    ),
    must_fail=(
        "returns one tensor",
        "leaves out an argument",
        "registers for another device",
        "registers in another namespace",
        "defines in another namespace",
        "swaps the arguments",
        "marks an argument that it does not write to",
        "defines without a kernel",
        "spells the name in two ways",
    ),
)
