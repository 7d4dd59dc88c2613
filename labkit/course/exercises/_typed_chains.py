"""Chains over arrays and single numbers of several types: one kernel, with PyTorch's promotion.

Source   c10/core/ScalarType.h  promoteTypes
         aten/src/ATen/native/TypeProperties.cpp  result_type
"""

import re
from typing import Any

import numpy as np
import torch

from labkit.course.benches import kernel_bench
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._graph_steps import Made, chain, drawn

TYPES: dict[str, Any] = {"int": np.int32, "float": np.float32, "double": np.float64}
ELEMENTS, THREADS = 40, 32
DECLARED = re.compile(r"^\s*const (\w+) (\w+) =", re.MULTILINE)


def _typed(single: float = 0.5, compiled: float = 0.08) -> Any:
    def case(rng: Rng, size: int) -> tuple[list[Made], dict[str, str], int, bool]:
        steps, seed = chain(rng, size, single)
        made = {step[0] for step in steps}
        inputs = sorted({name for step in steps for name in step[2:]} - made)
        types = {name: rng.choice(list(TYPES)) for name in inputs}
        return steps, types, seed, rng.chance(compiled)

    return case


@handed_out
def _inputs(types: dict[str, str], seed: int) -> dict[str, Any]:
    """Arrays, without dimensions for single numbers; thirds where the type has them."""
    made, found = np.random.default_rng(seed), {}
    for name, kind in types.items():
        sizes = () if name.startswith("s") else (ELEMENTS,)
        whole = np.asarray(made.integers(-4, 5, sizes))
        found[name] = np.asarray(whole if kind == "int" else whole / 3, TYPES[kind])
    return found


def _right(steps: list[Made], types: dict[str, str], seed: int, run: bool) -> dict[str, Any]:
    values = {name: torch.from_numpy(x) for name, x in _inputs(types, seed).items()}
    for made, operator, first, second in steps:
        a, b = values[first], values[second]
        values[made] = a + b if operator == "+" else a - b if operator == "-" else a * b
    names = {torch.int32: "int", torch.float32: "float", torch.float64: "double"}
    result = values[steps[-1][0]]
    found: dict[str, Any] = {
        "registers": {name: names[value.dtype] for name, value in values.items()},
        "result": names[result.dtype],
    }
    if not run:
        return found
    return found | {
        "values": result.double().expand(ELEMENTS).tolist(),
        "reads of each input": dict.fromkeys(types, 1),
        "writes": 1,
    }


@handed_out
def _drive(answer: Any, steps: list[Made], types: dict[str, str], seed: int, run: bool) -> Any:
    lines, result = answer(steps, dict(types))
    if result not in TYPES:
        return f"the result's type is one of {', '.join(TYPES)}, not {result!r}"
    declared = {name: kind for kind, name in DECLARED.findall("\n".join(lines))}
    found = {"registers": declared, "result": result}
    return found | _ran(lines, result, types, _inputs(types, seed)) if run else found


@handed_out
def _ran(
    lines: list[str], result: str, types: dict[str, str], inputs: dict[str, Any]
) -> dict[str, Any]:
    """What the kernel of these lines computes on the emulator, and what it reads and writes."""
    pointers = [f"const {types[name]}* p_{name}" for name in inputs]
    code = (
        f'extern "C" __global__ void chain({", ".join(pointers)}, {result}* p_out, int n) {{\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n    "
        + "\n    ".join(lines)
        + "\n}\n"
    )
    arrays = [np.atleast_1d(x) for x in inputs.values()]
    out = np.zeros(ELEMENTS, TYPES[result])
    blocks = -(-ELEMENTS // THREADS)
    done = kernel_bench.launch(code, "chain", blocks, THREADS, (*arrays, out, ELEMENTS))
    values = done.failure or done.arrays[-1].astype(float).tolist()
    text = "\n".join(lines)  # the compiler drops a load that it can do without
    return {
        "values": values,
        "reads of each input": {name: text.count(f"p_{name}[") for name in inputs},
        "writes": text.count("p_out["),
    }


def _off(name: str) -> Any:
    return lambda e: isinstance(e.value, dict) and e.value.get(name) != e.right.get(name)


def _mixed(evidence: Evidence) -> bool:
    return _off("registers")(evidence) and any(name.startswith("s") for name in evidence.inputs[1])


def _in_words(steps: list[Made], types: dict[str, str], seed: int, run: bool) -> str:
    lines = "; ".join(f"{made} = {a} {operator} {b}" for made, operator, a, b in steps)
    return f"{lines}; types {types}{'' if run else ' (not compiled)'}"


def _picture(case: Any, got: Any, right: Any) -> Any:
    """The chain with the type of each value, those marked whose type is wrong."""
    steps, types, *_ = case.inputs
    reads = {name: [] for name in types} | {step[0]: list(step[2:]) for step in steps}
    registers = got.get("registers", {}) if isinstance(got, dict) else {}
    wrong = [name for name in reads if registers.get(name) != right["registers"][name]]
    labels = {name: f"{name}: {registers.get(name, '?')}" for name in reads}
    return drawn(reads, wrong, labels)


typed_codegen = Exercise(
    id="fusion_and_inplace.typed_codegen",
    case=_typed(),
    expected=_right,
    drive=_drive,
    show=_in_words,
    picture=_picture,
    rung="boss",
    cases=150,
    sizes=8,
    seconds=20.0,
    minutes=25,
    tolerance=1e-5,
    processes=True,
    rules=("no torch, no labkit",),
    banned=("torch.*", "labkit.graph", "labkit.core.promotion"),
    stages=(
        Stage("arrays", case=_typed(0.0, 0.0), cases=40),
        Stage("single numbers", case=_typed(0.6, 0.0), cases=60),
        Stage("some compiled"),
    ),
    hints=(
        Hint(
            "A single number beside an array: it counts only where it is of another kind. A "
            "double beside an array of float is taken as a float; a float beside an array of int "
            "is not taken as an int. Two single numbers make a single number.",
            when=_mixed,
        ),
        Hint("Of two arrays the larger type wins: int, float, double.", when=_off("registers")),
        Hint("The result has the type of the last step.", when=_off("result")),
        Hint(
            "An input is read twice from memory, or not at all. Note which names have a register.",
            when=_off("reads of each input"),
        ),
        Hint("Only the last value is written.", when=_off("writes")),
        "First your pointwise_codegen with float in each line. Then a dict from each name to its "
        "type, which every step adds to.",
    ),
    must_fail=(
        "ignores promotion",
        "takes the type of the first input",
        "the larger type always wins",
        "a single number never counts",
        "a step on two single numbers makes an array",
        "always results in float",
        "reads an input once per use",
        "writes every step",
    ),
)
