"""In-place writes to views: a history that moves, and a version that all share."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._version_steps import kept_by, through_copy, unpack
from labkit.course.exercises._written_tensors import will_backward_refuse

NOTEBOOK = "3_internals/5b_versions"


Program = list[tuple[Any, ...]]


class Node:
    """One step of history.

    name      as PyTorch prints it
    edges     the nodes that its gradients go to
    backward  (gradient, a list of floats) -> one such list per edge
    """

    def __init__(self, name: str, edges: "list[Node]", backward: Callable[[Any], Any]) -> None:
        self.name, self.edges, self.backward = name, edges, backward


class Tensor:
    """A tensor of floats, or a view of one.

    memory     the list of floats; a base and its views share it
    places     the positions in memory that this tensor covers. A base covers all of it
    node       its grad_fn
    version    a list of one int
    made_at    the version at which `node` was right
    base       the tensor this one is a view of, never a view itself; None for a base
    view_name  of a view: the name of the node that made it
    output_nr  which output of that node this is
    several    for the last exercise, as the two above
    """

    def __init__(
        self,
        memory: list[float],
        places: tuple[int, ...],
        node: Node,
        version: list[int],
        base: "Tensor | None" = None,
        view_name: str = "",
        output_nr: int = 0,
        several: bool = False,
    ) -> None:
        self.memory, self.places, self.node = memory, places, node
        self.version, self.made_at = version, version[0]
        self.base, self.view_name, self.output_nr = base, view_name, output_nr
        self.several = several


def _views_case(rng: Rng, size: int) -> tuple[int, int, Program]:
    rows, columns = rng.randint(1, 2 + size // 4), rng.randint(1, 2 + size // 4)
    shapes: dict[str, tuple[int, ...]] = {"base": (rows, columns)}
    several = False
    steps: Program = []
    for number in range(2 + size):
        name = rng.choice(list(shapes))
        shape = shapes[name]
        roll = rng.random()
        if roll < 0.45:
            steps.append(("mul_", name, float(rng.choice((2, 3, -1, 0.5)))))
        elif roll < 0.55:
            steps.append(("history", name))
        elif roll < 0.68 and shape and shape[0] and not (several and rng.chance(0.7)):
            several = True
            outputs = [f"v{number}.{i}" for i in range(shape[0])]
            steps.append(("unbind", name, outputs))
            shapes |= {one: shape[1:] for one in outputs}
        elif shape and shape[0] and rng.chance(0.5):
            steps.append(("select", name, f"v{number}", rng.randrange(shape[0])))
            shapes[f"v{number}"] = shape[1:]
        elif shape:
            start = rng.randint(0, shape[0])
            end = rng.randint(start, shape[0])
            steps.append(("slice", name, f"v{number}", start, end))
            shapes[f"v{number}"] = (end - start, *shape[1:])
    return rows, columns, steps


def _unbinds(steps: Program) -> bool:
    return any(step[0] == "unbind" for step in steps)


def _views_of_outputs(steps: Program) -> bool:
    return any("." in step[1] and step[0] in ("select", "slice", "unbind") for step in steps)


@handed_out
def _sentence(error: Exception) -> str:
    return str(error).partition(".")[0]


def _of_torch(error: Exception) -> str:
    return _sentence(error).replace("Backward0 is a view", " is a view")  # as before 2.13


@handed_out
def _weights(count: int) -> list[float]:
    return [float(1 + i) for i in range(count)]


@handed_out
def _part(
    steps: tuple[Any, ...], shape: tuple[int, ...]
) -> list[tuple[tuple[int, ...], list[int]]]:
    """For each view that a step makes of a tensor of this shape: its shape and places in it."""
    inner = 1
    for length in shape[1:]:
        inner *= length
    row = [list(range(i * inner, (i + 1) * inner)) for i in range(shape[0])]
    if steps[0] == "unbind":
        return [(shape[1:], places) for places in row]
    if steps[0] == "select":
        return [(shape[1:], row[steps[3]])]
    start, end = steps[3:]
    return [((end - start, *shape[1:]), [p for places in row[start:end] for p in places])]


@handed_out
def _chain(node: Any) -> list[str]:
    names: list[str] = []
    while node is not None and len(names) < 100:
        names.append(node.name)
        node = node.edges[0] if node.edges else None
    return names


@handed_out
def _gradient(node: Any, count: int) -> list[float]:
    grad = _weights(count)
    while node.edges:
        (grad,) = node.backward(grad)
        node = node.edges[0]
    return list(grad)


def _drive_views(answer: Any, rows: int, columns: int, steps: Program) -> dict[str, Any]:
    """What the answer's functions did, step by step, and what is there at the end."""
    view, mul_, history = answer
    count = rows * columns
    leaf = Node("AccumulateGrad", [], lambda grad: [])
    start = Node("MulBackward0", [leaf], lambda grad: [[2 * g for g in grad]])
    memory = [2.0 * (1 + i) for i in range(count)]
    tensors = {"base": (Tensor(memory, tuple(range(count)), start, [0]), (rows, columns))}
    log: list[Any] = []
    for step in steps:
        if step[1] not in tensors:
            continue
        tensor, shape = tensors[step[1]]
        try:
            if step[0] == "mul_":
                mul_(tensor, step[2])
            elif step[0] == "history":
                log.append((*step, _chain(history(tensor))))
            else:
                names = step[2] if step[0] == "unbind" else [step[2]]
                node_name = f"{step[0].capitalize()}Backward0"
                made = {}
                for number, (new_shape, places) in enumerate(_part(step, shape)):
                    given = list(places)
                    one = view(tensor, given, node_name, number)
                    if given != places:
                        log.append("view changed the list of places")
                    made[names[number]] = one, new_shape
                tensors |= made
        except NotImplementedError:  # the untouched stub; it is a RuntimeError as well
            raise
        except RuntimeError as error:
            log.append((*step, _sentence(error)))
    end = {}
    for name, (tensor, _) in tensors.items():
        values = [tensor.memory[place] for place in tensor.places]
        try:
            node = history(tensor)
            found: Any = (_chain(node), _gradient(node, len(values)))
        except RuntimeError as error:
            found = _sentence(error)
        end[name] = {"version": tensor.version[0], "values": values, "graph, gradient": found}
    return {"on the way": log, "at the end": end}


def _names(node: Any) -> list[str]:
    names: list[str] = []
    while node is not None:
        names.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _views_truth(rows: int, columns: int, steps: Program) -> dict[str, Any]:
    count = rows * columns
    x = torch.arange(1, count + 1, dtype=torch.float64).reshape(rows, columns).requires_grad_()
    tensors = {"base": x * 2}
    log: list[Any] = []
    for step in steps:
        if step[1] not in tensors:
            continue
        tensor = tensors[step[1]]
        try:
            if step[0] == "mul_":
                tensor.mul_(step[2])
            elif step[0] == "history":
                log.append((*step, _names(tensor.grad_fn)))
            elif step[0] == "unbind":
                tensors |= dict(zip(step[2], tensor.unbind(), strict=True))
            elif step[0] == "select":
                tensors[step[2]] = tensor.select(0, step[3])
            else:
                tensors[step[2]] = tensor[step[3] : step[4]]
        except RuntimeError as error:
            log.append((*step, _of_torch(error)))
    end = {}
    for name, tensor in tensors.items():
        weights = torch.tensor(_weights(tensor.numel()), dtype=torch.float64).reshape(tensor.shape)
        try:
            names = _names(tensor.grad_fn)
            (grad,) = torch.autograd.grad(tensor, x, weights, retain_graph=True)
            found: Any = (names, grad.flatten().tolist())
        except RuntimeError as error:
            found = _of_torch(error)
        end[name] = {
            "version": tensor._version,
            "values": tensor.detach().flatten().tolist(),
            "graph, gradient": found,
        }
    return {"on the way": log, "at the end": end}


def _judge_views(case: Case, got: Any) -> Any:
    right = _views_truth(*case.inputs)
    if not isinstance(got, dict):
        return f"the program should run; it {got!r}"
    if got["on the way"] != right["on the way"]:
        pairs = [*zip(right["on the way"], got["on the way"], strict=False)]
        for wanted, found in pairs:
            if wanted != found:
                return f"event {wanted}; yours: {found}"
        wanted, found = (each["on the way"][len(pairs) :] for each in (right, got))
        return f"event {wanted[0]}; yours: none" if wanted else f"no event; yours: {found[0]}"
    if list(got["at the end"]) != list(right["at the end"]):
        return f"tensors {list(right['at the end'])}; yours: {list(got['at the end'])}"
    for name, wanted in right["at the end"].items():
        for what, value in wanted.items():
            found = got["at the end"][name][what]
            if found != value:
                return f"{what} of {name}: {value}; yours: {found}"
    return None


MAKES_A_VIEW = ("event ('select'", "event ('slice'", "event ('unbind'")


def _yours(evidence: Evidence) -> str:
    return evidence.property.partition("; yours: ")[2]


def _picture(case: Case, got: Any, right: Any) -> Any:
    """The history that is wrong at the end, beside the right one; None where all are right."""
    from labkit.course.exercises._histories import two_histories  # drawn for a failing case alone

    kind = "graph, gradient"
    wanted = _views_truth(*case.inputs)["at the end"]
    for name, end in wanted.items():
        yours = got["at the end"][name]
        if yours[kind] != end[kind]:
            return two_histories(name, end[kind], yours[kind])
    return None


rebase_history = Exercise(
    id="versions.rebase_history",
    case=_views_case,
    judge=_judge_views,
    drive=_drive_views,
    show=lambda rows, columns, steps: f"base of {rows} x {columns}; "
    + ", ".join(" ".join(map(str, step)) for step in steps),
    rules=("plain Python; torch and labkit.autograd are out of reach",),
    cases=100,
    sizes=12,
    stages=(
        Stage("no unbind", only=lambda rows, columns, steps: not _unbinds(steps)),
        Stage("outputs of unbind", only=lambda rows, columns, steps: _unbinds(steps)
              and not _views_of_outputs(steps)),
        Stage("views of them"),
    ),
    banned=("torch.*", "labkit.autograd"),
    hints=(
        Hint("Refuse first, then call your function of the chapter: here something was changed "
             "though it refused, or nothing refused",
             when=lambda e: e.property.startswith(("version", "values"))),
        Hint("A view of a stale view is refused, too: safe_view asks safe_history of the old one",
             when=lambda e: "its base" in e.property and "yours: none" in e.property
             and e.property.startswith(MAKES_A_VIEW)),
        Hint("several says: may not be written. Who gets it? An output of unbind, and its views",
             when=lambda e: "Output" in e.property and "Output" not in _yours(e)),
        "A stale view: made_at is not the version. Only one with several refuses then",
        Hint("The words differ: a write says 'is being modified inplace', a stale "
             "node 'its base or another view of its base has been modified inplace'",
             when=lambda e: "Output" in _yours(e)),
    ),
    must_fail=(
        "rebases the view only",
        "siblings keep stale nodes",
        "version per tensor",
        "allows unbind outputs",
        "chain of views loses the restriction",
        "says the name with Backward0",
        FIRST,
        "returns NaN or an uninitialised buffer where a value is expected",
        "returns the right value but changes one of its inputs",
    ),
    minutes=15,
    picture=_picture,
)  # fmt: skip

EXERCISES = (unpack, kept_by, will_backward_refuse, through_copy, rebase_history)
