"""Fusion and in place: who else reads it, weights that hold a norm, memory that may be reused."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._folded_norms import fold_norms, folded
from labkit.course.exercises._graph_steps import (
    drawn,
    last_read,
    only_reader,
    pointwise_codegen,
)
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._typed_chains import typed_codegen

NOTEBOOK = "4_vision_low_level/7_fusion_and_inplace"
# --- reinplace

Program = tuple[list[tuple[str, str, list[str]]], list[str], dict[str, int]]


def _a_program(rng: Rng, size: int) -> Program:
    return _program(rng, size, views=0.3, callers=0.5, sizes=0.3)


def _program(
    rng: Rng, size: int, views: float = 0.0, callers: float = 0.0, sizes: float = 0.0
) -> Program:
    """Steps that make, view and combine values; without `callers` nobody reads the input again."""
    counts = {"x": rng.choice((4, 6))}
    steps: list[tuple[str, str, list[str]]] = [("x", "input", []), ("t0", "op", ["x"])]
    counts["t0"] = counts["x"]
    for place in range(1, 2 + size):
        name = f"t{place}"
        known = [one for one, _, _ in steps if callers or one != "x"]
        first = known[-1] if rng.chance(0.6) else rng.choice(known)
        if rng.chance(views):
            steps.append((name, "view", [first]))
            counts[name] = 1 if rng.chance(sizes) else counts[first]
            continue
        inputs = [first]
        if rng.chance(0.5):
            fits = [one for one in known if sizes or counts[one] <= counts[first]]
            inputs.append(rng.choice(fits))
        steps.append((name, "op", inputs))
        counts[name] = 1 if rng.chance(sizes / 2) else max(counts[one] for one in inputs)
    results = [steps[-1][0]]
    if rng.chance(0.3):
        results.append(rng.choice([one for one, _, _ in steps]))
    return steps, results, counts


def _memory(steps: Any) -> dict[str, str]:
    """Whose memory each value lies in."""
    memory: dict[str, str] = {}
    for name, kind, inputs in steps:
        memory[name] = memory[inputs[0]] if kind == "view" else name
    return memory


def _in_place(steps: Any, results: list[str], sizes: dict[str, int]) -> list[str]:
    memory = _memory(steps)
    done = []
    callers = {name for name, kind, _ in steps if kind == "input"}
    reads = [(place, one) for place, step in enumerate(steps) for one in step[2]]
    reads += [(len(steps), one) for one in results]
    for place, (name, kind, inputs) in enumerate(steps):
        if kind != "op":
            continue
        first, mine = inputs[0], memory[inputs[0]]
        needed = any(
            memory[one] == mine and (at > place or (at == place and one != first))
            for at, one in reads
        )
        if mine not in callers and not needed and sizes[name] == sizes[first]:
            done.append(name)
    return done


def _wrote(e: Any) -> list[tuple[str, list[str]]]:
    """The steps that write although they may not, and what they read."""
    return [
        (name, inputs)
        for name, _, inputs in e.inputs[0]
        if inputs and name in e.value and name not in e.right
    ]


def _reads_it_by_another_name(e: Any) -> bool:
    """Whether a step that may not write has its first input a second time, as another view."""
    memory = _memory(e.inputs[0])
    return any(
        memory[one] == memory[inputs[0]] and one != inputs[0]
        for _, inputs in _wrote(e)
        for one in inputs[1:]
    )


def _writes_the_callers(e: Any) -> bool:
    memory = _memory(e.inputs[0])
    return any(memory[inputs[0]] == "x" for _, inputs in _wrote(e))


def _inplace_picture(case: Any, got: Any, right: Any) -> Any:
    steps, results, _ = case.inputs
    reads = {name: inputs for name, _, inputs in steps} | {"result": results}
    labels = {name: f"{name} = {kind}" for name, kind, _ in steps}
    yours = got if isinstance(got, list) else []
    return drawn(reads, sorted(set(yours) ^ set(right)), labels)


reinplace = Exercise(
    id="fusion_and_inplace.reinplace",
    case=_a_program,
    expected=_in_place,
    stages=(
        Stage("later readers", case=lambda rng, size: _program(rng, size), cases=40),
        Stage("the caller's", case=lambda rng, size: _program(rng, size, callers=1), cases=40),
        Stage("views", case=lambda rng, size: _program(rng, size, views=0.4), cases=60),
        Stage("sizes"),
    ),
    cases=200,
    sizes=8,
    minutes=12,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A step reads the memory of its first input by another name, too: then it may not "
             "write there.", when=_reads_it_by_another_name),
        Hint("Views of one memory are one set. Give each value the name of its memory, and ask for "
             "reads of that.", stage="views"),
        Hint("x belongs to the caller: nobody may write over it, nor over a view of it.",
             when=_writes_the_callers),
        Hint("A step wrote over an input of another size.",
             when=lambda e: any(e.inputs[2][name] != e.inputs[2][inputs[0]]
                                for name, inputs in _wrote(e))),
        Hint("You wrote over something that is read later, maybe by another name.",
             when=lambda e: isinstance(e.value, list) and bool({*e.value} - {*e.right})),
        Hint("A step that reads a value for the last time may write over it.",
             when=lambda e: isinstance(e.value, list) and bool({*e.right} - {*e.value})),
        "What is returned is read after the last step.",
    ),
    must_fail=(
        "single-consumer rule", "ignores views", "writes graph inputs", "ignores the size",
        "writes over an input that is larger", "writes over a view of an input",
        "forgets what is returned", "overlooks that the step itself reads another view", FIRST,
    ),
    picture=_inplace_picture,
)  # fmt: skip

EXERCISES = (
    only_reader, folded, fold_norms, pointwise_codegen, last_read, reinplace, typed_codegen,
)  # fmt: skip
