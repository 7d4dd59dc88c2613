"""The lines of C++ that make a function an operator: a schema, and a kernel for the CPU."""

import re
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out

ARGUMENTS = "lltm::step(Tensor gates, Tensor old)"
RIGHT = {
    "schema": f"{ARGUMENTS} -> (Tensor, Tensor)",
    "kernels": ["lltm::step on CPU is the function step"],
}
BLOCK = re.compile(r"\b(TORCH_LIBRARY(?:_IMPL)?)\s*\(([^)]*)\)\s*\{([^}]*)\}")
DEFINED = r'\b{m}\s*\.\s*def\s*\(\s*"([^"]*)"\s*\)\s*(;?)'
IMPLEMENTED = (
    r'\b{m}\s*\.\s*impl\s*\(\s*"([^"]*)"\s*,\s*(?:&\s*|TORCH_FN\s*\(\s*)?(\w+)\s*\)[\s)]*(;?)'
)
UNENDED = "without a ; behind it"


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
            for written, end in found[:1]:
                schema = _read(_qualified(space, written)) if end else f"{m}.def(...) {UNENDED}"
        for name, function, end in re.findall(IMPLEMENTED.format(m=re.escape(m)), body):
            on = " and ".join(key) or "every backend"
            put_in = f"{_qualified(space, name)} on {on} is the function {function}"
            kernels.append(put_in if end else f"{m}.impl(...) {UNENDED}")
    return {"schema": schema, "kernels": kernels}


@handed_out
def _qualified(space: str, name: str) -> str:
    """The name with its namespace, which it may have already."""
    return name if "::" in name.partition("(")[0] else f"{space}::{name}"


@handed_out
def _read(schema: str) -> str:
    """The schema as PyTorch's own parser reads it, without names for the results."""
    try:
        read = torch._C.parse_schema(schema)
        arguments, arrow, results = str(read).rpartition(" -> ")
        for result in read.returns:
            results = re.sub(rf" {re.escape(result.name)}(?=[,)]|$)", "", results, count=1)
        return arguments + arrow + results
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


def _arguments(evidence: Evidence) -> str:
    """What stands before the arrow of the schema."""
    before, _, _ = evidence.value["schema"].rpartition(" -> ")
    return str(before)


def _bare_results(evidence: Evidence) -> bool:
    """Whether several results follow the arrow, and no brackets hold them."""
    _, _, results = evidence.value["schema"].partition("->")
    cannot, results = "cannot read" in evidence.value["schema"], results.strip()
    return cannot and results.startswith("Tensor") and "," in results.partition("'")[0]


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
            "A statement of C++ ends with a semicolon, after the bracket: m.def(...); m.impl(...);",
            when=lambda e: UNENDED in f"{e.value['schema']} {e.value['kernels']}",
        ),
        Hint(
            "The schema is right, and no function is put in for tensors on the CPU: "
            "TORCH_LIBRARY_IMPL(lltm, CPU, m) { ... }.",
            when=lambda e: _is_right("schema")(e) and not e.value["kernels"],
        ),
        Hint(
            "The schema is right. Look at the kernel's line: the namespace, the device and the "
            "operator's name have to be those of the schema.",
            when=lambda e: (
                _is_right("schema")(e) and e.value["kernels"] and UNENDED not in str(e.value)
            ),
        ),
        Hint(
            "Two tensors come out, and the schema has them in brackets: -> (Tensor, Tensor).",
            when=lambda e: (
                not _is_right("schema")(e) and (_arguments(e) == ARGUMENTS or _bare_results(e))
            ),
        ),
        Hint(
            "The namespace stands in both macros. It is lltm, as in torch.ops.lltm.step.",
            when=lambda e: "::" in e.value["schema"] and _space(e) not in ("lltm", ""),
        ),
        Hint(
            "The operator's name is step, as in torch.ops.lltm.step.",
            when=lambda e: _space(e) == "lltm" and "::step(" not in _arguments(e),
        ),
        Hint(
            "These are other arguments than `step` has: first Tensor gates, then Tensor old, and "
            "it writes to neither.",
            when=lambda e: _arguments(e).startswith("lltm::step(") and _arguments(e) != ARGUMENTS,
        ),
        Hint(
            "PyTorch has no such schema. Each argument is a type and a name: Tensor gates.",
            when=lambda e: "cannot read" in e.value["schema"] and not _bare_results(e),
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
        "leaves the brackets of the results out",
        "leaves out a semicolon",
    ),
)
