"""Programs that write into tensors, and what PyTorch does with them: fine, refused, or wrong."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST

CATCHES = "catches every exception and returns a default"

Program_ = list[tuple[Any, ...]]
KEEPS_RESULT = ("exp", "tanh", "sigmoid")
KEEPS_INPUT = ("sin", "cos", "square")
KEEPS_NOTHING = ("neg", "clone", "view")
WAYS = ("plain", "no_grad", "detach", "data")


def _a_write_program(rng: Rng, size: int) -> tuple[Program_]:
    """Leaves, operations and writes; the last one asks for a gradient."""
    while True:
        program: Program_ = [("leaf", "a", True), ("leaf", "b", rng.chance(0.5))]
        names = ["a", "b"]
        for number in range(1 + rng.randint(1, 2 + size)):
            if rng.chance(0.4):
                program.append(_a_write(rng, names))
                continue
            name, late = f"t{number}", names[-3:]
            if rng.chance(0.4):
                kind = rng.choice(("mul", "mul", "add"))
                program.append((kind, name, rng.choice(late), rng.choice(late)))
            else:
                one = rng.choice((*KEEPS_RESULT, *KEEPS_INPUT, *KEEPS_NOTHING, "view", "view"))
                program.append((one, name, rng.choice(late)))
            names.append(name)
        if rng.chance(0.5):
            program.append(_a_write(rng, names))
        program.append(("backward", names[-1]))
        if _is_calm(program):
            return (_kept_again(rng) if rng.chance(0.05) else program,)


def _kept_again(rng: Rng) -> Program_:
    """A tensor is kept, written, and kept again: the first time is what counts."""
    first, again = rng.choice(KEEPS_INPUT), rng.choice(KEEPS_INPUT)
    write = "write", "t0", rng.choice(("no_grad", "detach"))
    kept = [("add", "t0", "a", "a"), (first, "t1", "t0"), write, (again, "t2", "t0")]
    end = [("add", "t3", "t1", "t2"), ("backward", "t3")]
    return [("leaf", "a", True), ("leaf", "b", False), *kept, *end]


def _a_write(rng: Rng, names: list[str]) -> tuple[str, str, str]:
    """A write to a recent tensor or any; a plain one to a leaf ends a program, so it is rare."""
    name = names[-1] if rng.chance(0.4) else rng.choice(names)
    way = rng.choice((*WAYS, "data"))
    return "write", name, "data" if way == "plain" and name in "ab" and rng.chance(0.5) else way


def _is_calm(program: Program_) -> bool:
    """The result needs a gradient, and its numbers stay where differences can be taken."""
    with torch.no_grad():
        result = _values(program, _start())
    needs = {name: wants for kind, name, wants in program[:2] if kind == "leaf"}
    for step in program[2:-1]:
        if step[0] != "write":
            needs[step[1]] = any(needs[name] for name in step[2:])
    if not needs[program[-1][1]] or bool((result.abs() >= 1e3).any()):
        return False
    verdict, changed = _outcome(program)
    return verdict != "fine" or not changed  # a flat sigmoid hides that a kept value changed


def _start() -> dict[str, torch.Tensor]:
    return {
        "a": torch.tensor([0.3, 0.55], dtype=torch.float64),
        "b": torch.tensor([0.8, 0.45], dtype=torch.float64),
    }


def _applied(step: tuple[Any, ...], values: dict[str, torch.Tensor]) -> torch.Tensor:
    kind, _, *names = step
    operands = [values[name] for name in names]
    return operands[0].view(2) if kind == "view" else getattr(torch, kind)(*operands)


def _written(tensor: torch.Tensor, way: str) -> None:
    if way == "plain":
        tensor.add_(1)
    elif way == "data":
        tensor.data.add_(1)
    elif way == "detach":
        tensor.detach().add_(1)
    else:
        with torch.no_grad():
            tensor.add_(1)


def _values(program: Program_, leaves: dict[str, torch.Tensor]) -> torch.Tensor:
    """The result as a function of the leaves alone; no graph."""
    values = {name: tensor.clone() for name, tensor in leaves.items()}
    for step in program[2:-1]:
        if step[0] == "write":
            values[step[1]].add_(1)
        else:
            values[step[1]] = _applied(step, values)
    return values[program[-1][1]].clone()


def _numerical(program: Program_, name: str) -> torch.Tensor:
    """The gradient of the result's sum by central differences."""
    grads = []
    for place in range(2):
        ends = []
        for sign in (1, -1):
            leaves = _start()
            leaves[name][place] += sign * 1e-6
            ends.append(_values(program, leaves).sum())
        grads.append((ends[0] - ends[1]) / 2e-6)
    return torch.stack(grads)


def _kept_by(step: tuple[Any, ...], needs: Callable[[str], bool]) -> list[str]:
    """The names whose values the operation keeps for backward."""
    kind, name, *operands = step
    if not any(needs(one) for one in operands):
        return []
    if kind in KEEPS_RESULT:
        return [name]
    if kind in KEEPS_INPUT:
        return operands
    if kind == "mul":
        left, right = operands
        return [*([right] if needs(left) else []), *([left] if needs(right) else [])]
    return []


def _outcome(program: Program_) -> tuple[str, list[str]]:
    """What PyTorch does with the program, and the kept values that changed meanwhile."""
    values: dict[str, torch.Tensor] = {}
    kept: list[tuple[Any, str, torch.Tensor, int, torch.Tensor]] = []
    for step in program[:-1]:
        kind, name = step[:2]
        if kind == "leaf":
            values[name] = _start()[name].requires_grad_(step[2])
        elif kind == "write":
            try:
                _written(values[name], step[2])
            except RuntimeError:
                return "refused at the write", [name]
        else:
            values[name] = result = _applied(step, values)
            for one in _kept_by(step, lambda n: values[n].requires_grad):
                held = values[one]
                kept.append((result.grad_fn, one, held, held._version, held.detach().clone()))
    result = values[program[-1][1]]
    on_path, todo = set(), [result.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in on_path:
            on_path.add(node)
            todo += [parent for parent, _ in node.next_functions]
    kept = [one for one in kept if one[0] in on_path]
    stale = {name for _, name, held, version, _ in kept if held._version != version}
    silent = {n for _, n, held, _, before in kept if not torch.equal(held.detach(), before)}
    try:
        result.sum().backward()
    except RuntimeError:
        return "refused at backward", sorted(stale)
    for name in ("a", "b"):
        grad = values[name].grad
        if grad is not None:
            true = _numerical(program, name)
            if not torch.allclose(grad, true, rtol=1e-5, atol=1e-7):
                return "silently wrong", sorted(silent)
    return "fine", sorted(silent)


def _program_in_words(program: Program_) -> str:
    return "; ".join(program_lines(program))


@handed_out
def program_lines(program: Program_) -> list[str]:
    """The program as Python that PyTorch would run."""
    lines = []
    for step in program:
        kind, name, *rest = step
        if kind == "leaf":
            lines.append(f"{name} = leaf(requires_grad={rest[0]})")
        elif kind == "write":
            ways = {
                "plain": "{}.add_(1)",
                "data": "{}.data.add_(1)",
                "detach": "{}.detach().add_(1)",
                "no_grad": "with no_grad(): {}.add_(1)",
            }
            lines.append(ways[rest[0]].format(name))
        elif kind == "backward":
            lines.append(f"{name}.sum().backward()")
        elif kind == "view":
            lines.append(f"{name} = {rest[0]}.view(2)")
        else:
            lines.append(f"{name} = {kind}({', '.join(rest)})")
    return lines


def _without_a_step(program: Program_) -> Any:
    for gone in range(2, len(program) - 1):
        shorter = program[:gone] + program[gone + 1 :]
        defined = {"a", "b"}
        sound = True
        for step in shorter[2:]:
            used = step[1:2] if step[0] in ("write", "backward") else step[2:]
            sound = sound and set(used) <= defined
            defined |= set() if step[0] in ("write", "backward") else {step[1]}
        if sound and _is_calm(shorter):
            yield (shorter,)


def _only(ways: tuple[str, ...], without: tuple[str, ...]) -> Callable[[Program_], bool]:
    """Whether a program writes, in these ways alone, and has none of these operations."""

    def fits(program: Program_) -> bool:
        used = {step[2] for step in program if step[0] == "write"}
        return bool(used) and used <= {*ways} and not {s[0] for s in program} & {*without}

    return fits


def _walk(case: Case, got: Any, right: Any) -> Any:
    """The program's backward in labkit, at its last step; None where a write is refused."""
    import labkit as lab
    from labkit import show

    (program,) = case.inputs
    if right[0] == "refused at the write":
        return None
    values: dict[str, Any] = {}
    for step in program[:-1]:
        kind, name, *rest = step
        if kind == "leaf":
            values[name] = lab.tensor([0.3, 0.55], dtype=lab.float64, requires_grad=rest[0])
        elif kind == "write":
            with lab.no_grad():
                (values[name].data if rest[0] == "data" else values[name]).add_(1)
        elif kind == "view":
            values[name] = values[rest[0]].view(2)
        else:
            values[name] = getattr(lab, kind)(*(values[one] for one in rest))
    walk = show.backward(values[program[-1][1]].sum(), title="which kept tensors were written?")
    return walk.open_at(len(walk.frames))


def _said(got: str, right: str) -> Any:
    return lambda e: e.value[0] == got and e.right[0] == right


def _has_way(way: str) -> Any:
    return lambda e: any(s[0] == "write" and s[2] == way for s in e.inputs[0])


will_backward_refuse = Exercise(
    id="versions.will_backward_refuse",
    rules=("predict: no torch, no labkit",),
    case=_a_write_program,
    expected=_outcome,
    smaller=_without_a_step,
    show=_program_in_words,
    cases=200,
    sizes=7,
    minutes=15,
    picture=_walk,
    stages=(
        Stage("one kind of write", only=_only(("no_grad", "detach"), ("mul", "view"))),
        Stage("plain", only=_only(("plain", "no_grad", "detach"), ("mul", "view"))),
        Stage("products", only=_only(("plain", "no_grad", "detach"), ("view",))),
        Stage("data", only=_only(WAYS, ("view",))),
        Stage("views"),
    ),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Nobody kept what was overwritten, or nobody on the way from the result to the leaves: "
            "{input}. add keeps nothing of its inputs.",
            when=lambda e: e.right[0] == "fine",
        ),
        Hint(
            "A plain write to a leaf that requires grad, or to a view of one, is refused on the "
            "spot. Under no_grad, through detach or data it is not.",
            when=lambda e: "refused at the write" in (e.value[0], e.right[0]),
        ),
        Hint(
            "data has a version counter of its own: the write is not noticed, and backward uses "
            "the new values.",
            when=_said("refused at backward", "silently wrong"),
        ),
        Hint(
            "Both happened: one write was noticed. Then backward refuses, whatever else is wrong, "
            "and only the noticed ones are named.",
            when=lambda e: e.right[0] == "refused at backward" and _has_way("data")(e),
        ),
        Hint(
            "The names are right: each once, and sorted.",
            when=lambda e: e.value != e.right and {*e.value[1]} == {*e.right[1]} != set(),
        ),
        Hint(
            "The names are wrong: a view that was kept is reported by its own name.",
            when=lambda e: (
                e.value[0] == e.right[0]
                and any(step[0] == "view" and step[1] in e.right[1] for step in e.inputs[0])
                and not any(step[0] == "view" and step[1] in e.value[1] for step in e.inputs[0])
            ),
        ),
        Hint(
            "A view and its base share bytes and the version counter: a write to one changes what "
            "was kept of the other.",
            when=lambda e: any(step[0] == "view" for step in e.inputs[0]),
        ),
        "For each operation list what it keeps, with the version of that moment. At backward "
        "compare, for the operations that the result depends on.",
        "detach and view share the counter; no_grad changes nothing about counting.",
    ),
    must_fail=(
        "any in-place is refused",
        ".data is refused",
        "only leaves matter",
        "ignores that add does not save its inputs",
        "of a tensor kept twice asks the last time alone",
        FIRST,
        CONSTANT,
        CATCHES,
    ),
)
