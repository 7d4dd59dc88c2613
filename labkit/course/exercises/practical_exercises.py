"""One training step, traced, analysed and repaired; and an operator of it in C++."""

from collections import Counter
from typing import Any

import torch

from labkit.course.compare import difference
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._analysed_calls import analyse_the_dispatcher
from labkit.course.exercises._cpp_matrix import a_matrix, first_wrong_matrix, laid_out
from labkit.course.exercises._stencil import on_the_cpu, on_the_device
from labkit.course.exercises._step_programs import (
    a_function,
    described,
    finished_trace,
    finished_train,
    measured,
    traced,
    two_branches,
)

NOTEBOOK = "3_internals/9_practical_exercises"


# --- never_freed


def _events(rng: Rng, size: int) -> tuple[list[str]]:
    made, alive, count = list[str](), list[int](), 0
    if size == 7:  # "free 1" is the beginning of "free 12"
        return ([*(f"save {number}" for number in range(1, 13)), "free 12", "free 3"],)
    for _ in range(2 * size):
        if alive and rng.chance(0.45):
            made.append(f"free {alive.pop(rng.randrange(len(alive)))}")
        else:
            count += 1
            alive.append(count)
            made.append(f"save {count}")
    return (made,)


def _left(events: list[str]) -> list[int]:
    freed = {event.split()[1] for event in events if event.startswith("free")}
    numbers = [event.split()[1] for event in events if event.startswith("save")]
    return [int(number) for number in numbers if number not in freed]


never_freed = Exercise(
    id="practical_exercises.never_freed",
    case=_events,
    expected=_left,
    rung="warm-up",
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "The numbers are text in the events: return whole numbers.",
            when=lambda e: bool(e.value) and isinstance(e.value[0], str),
        ),
        Hint(
            "You name a number that was freed.",
            when=lambda e: bool(set(e.value) - set(e.right)),
        ),
        "First collect the numbers that were freed. Which saved ones are not among them?",
        "kind, number = event.split() takes an event apart.",
    ),
    must_fail=(
        "names what was freed",
        "names every save",
        "looks at the last event alone",
        "counts instead of naming",
        "looks for the number in the text",
    ),
)


# --- trace_through_autograd


def _lacks(word: str) -> Any:
    def lacks(evidence: Evidence) -> bool:
        counts = [
            sum(event.split()[0] == word for event in events)
            for events in (evidence.value, evidence.right)
        ]
        return bool(counts[0] < counts[1])

    return lacks


def _too_many_nodes(evidence: Evidence) -> bool:
    theirs, right = Counter(evidence.value), Counter(evidence.right)
    return any(event.startswith("node") for event in theirs - right) and not right - theirs


def _another_order(evidence: Evidence) -> bool:
    same = Counter(evidence.value) == Counter(evidence.right)
    return same and evidence.value != evidence.right


def _same_kinds(evidence: Evidence) -> bool:
    """Events of the right kinds in the right order; some name the wrong thing."""
    kinds = [[event.split()[0] for event in one] for one in (evidence.value, evidence.right)]
    ours, right = (
        [event for event in one if not event.startswith("node")]
        for one in (evidence.value, evidence.right)
    )
    return kinds[0] == kinds[1] and ours == right


trace_through_autograd = Exercise(
    id="practical_exercises.trace_through_autograd",
    case=lambda rng, size: two_branches(rng, size) if size > 6 else a_function()(rng, size),
    expected=lambda *given: traced(finished_trace, *given),
    drive=traced,
    banned=("labkit.course.exercises._step_programs.finished_trace",),
    show=described,
    cases=15,
    minutes=12,
    stages=(
        Stage("one operator", cases=4,
              case=lambda rng, size: a_function("neg", "square")(rng, size % 2)),
        Stage("a chain", case=a_function("square", "exp", "sin", "neg"), cases=6),
        Stage("used twice", case=a_function("mul", "add", "square"), cases=8),
        Stage("two branches", case=two_branches, cases=4),
        Stage("all"),
    ),
    hints=(
        Hint("No line says `accumulated`: x.register_post_accumulate_grad_hook calls you back.",
             when=_lacks("accumulated")),
        Hint("A node is missing. From loss.grad_fn, follow each of the next_functions, until "
             "nothing is left.", when=_lacks("node")),
        Hint("A saved tensor is missing: is f(x) called inside the `with` of the hooks?",
             when=_lacks("save")),
        Hint("An unpack is missing: is backward called inside the `with`, too?",
             when=_lacks("unpack")),
        Hint("An operator is missing: is backward called inside the mode, too?",
             when=_lacks("op")),
        Hint("A node stands there too often. Two paths may lead to it: hook it once.",
             when=_too_many_nodes),
        Hint("The events are right, their order is not. A prehook is called before its node runs: "
             "node.register_prehook.", when=_another_order),
        Hint("x.grad may be there already, and stays: the backward pass adds to it.",
             when=lambda e: e.kind == "raised" and "x.grad is not" in e.got and e.inputs[-1]),
        Hint("The trace is right. But your hook is still on x, and keeps your list alive: the call "
             "that registers it returns a handle, and handle.remove() takes it away.",
             when=lambda e: e.kind == "raised" and "of your hooks" in e.got),
        Hint("The nodes have the wrong names. A lambda in a loop reads its variable when it is "
             "called: give each hook its own (`name=name`).", when=_same_kinds),
        "The parts are in the cells above: a mode, a pair of hooks, a prehook for each node.",
    ),
    must_fail=(
        "forward only",
        "hooks the first node alone",
        "hooks a node once for each path to it",
        "misses unpacking",
        "hooks change the values",
        "names no accumulation",
        "calls the finished one",
        "follows one way alone",
        "names the last node every time",
        "throws away the gradient that was there",
        "leaves x without its gradient",
        "changes x",
        "calls f twice",
        "notes the functions of torch, not their operators",
        "takes nodes of one name for one node",
        "notes a node after it has run",
        "leaves its hook on x",
    ),
)  # fmt: skip


# --- profile_memory_allocation


def _a_training(rng: Rng, size: int) -> tuple[int, int, int]:
    steps = rng.randint(1, 2 + size) if size else 0
    return 8 * rng.randint(1, 4), steps, rng.randint(0, 999)


def _drive_train(answer: Any, width: int, steps: int, seed: int) -> Any:
    """What is measured; to hold less than one step saves, 4 bytes a weight, is as right."""
    found = measured(answer, width, steps, seed)
    allowed = 4 * width if steps else 0
    return {**found, "most bytes held": max(found["most bytes held"], allowed)}


def _far(evidence: Evidence, key: str) -> bool:
    return bool(difference(evidence.value[key], evidence.right[key], 1e-6))


def _bars(case: Case, got: Any, right: Any) -> Any:
    """What was held at most and at the end, beside what is allowed."""
    from labkit import show

    if not isinstance(got, dict):
        return None
    words = ("most bytes held", "bytes held at the end")
    rows = {
        f"{word}: {who}": side[word]
        for word in words
        for who, side in (("yours", got), ("allowed", right))
    }
    return show.bars(rows, unit="bytes")


profile_memory_allocation = Exercise(
    id="practical_exercises.profile_memory_allocation",
    case=_a_training,
    expected=lambda width, steps, seed: measured(finished_train, width, steps, seed),
    drive=handed_out(_drive_train),
    show=lambda width, steps, seed: f"{width} weights, {steps} steps, seed {seed}",
    tolerance=1e-6,
    picture=_bars,
    cases=30,
    minutes=7,
    stages=(
        Stage("one step", case=lambda rng, size: (8, 1, rng.randint(0, 999)), cases=5),
        Stage("several steps"),
    ),
    hints=(
        Hint("Without batches there are no losses: an empty list.",
             when=lambda e: e.inputs[1] == 0 and e.kind in ("raised", "type")),
        Hint("Something is held when the training is over: a loss in the list still has its graph.",
             when=lambda e: e.value["bytes held at the end"] > 0),
        Hint("Nothing stays, but the most at one moment is too much: the check, four times as "
             "large as a batch, still saves. Compute it where nothing is saved.",
             when=lambda e: e.value["most bytes held"] > e.right["most bytes held"]),
        Hint("The training itself needs its graph: only the check's loss is computed without one.",
             when=lambda e: e.kind == "raised" and "does not require grad" in e.got),
        Hint("The weights came out different. Every step changes them, as before the repair.",
             when=lambda e: _far(e, "weights")),
        Hint("The list of losses is not what it was: each is that of the whole check, right after "
             "its step.", when=lambda e: _far(e, "losses")),
        "Who asks for a gradient of the check's loss? Nobody.",
    ),
    must_fail=(
        "keeps losses with their graph",
        "detaches afterwards",
        "checks with a quarter of the check",
        "trains without a graph",
        "checks before the step",
        "checks once, at the end",
        "keeps no losses",
        "changes what it was given",
        "has no list for no batches",
        "shrinks the batch",
    ),
)  # fmt: skip


# --- write_a_cpp_operator

RUN = {"CPU": on_the_cpu, "lab": on_the_device}
BOTH = ("difference", "difference_backward")


def _a_place(*devices: str, kinds: tuple[str, ...] = ("contiguous", "transposed", "gaps")) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, str, int, int, int]:
        return devices[size // 2 % len(devices)], *a_matrix(kinds)(rng, size)

    return case


@handed_out
def _drive_cpp(answer: Any, device: str, *layout: Any) -> dict[str, Any]:
    x, source = laid_out(*layout), answer()
    return {name: RUN[device](source, name)(x).tolist() for name in BOTH}


def _difference(x: Any) -> Any:
    wide = torch.nn.functional.pad(x, (1, 1))
    return wide[:, 2:] - wide[:, :-2]


def _right_cpp(device: str, *layout: Any) -> dict[str, Any]:
    found = _difference(laid_out(*layout))
    return {"difference": found.tolist(), "difference_backward": (0 - found).tolist()}


write_a_cpp_operator = Exercise(
    id="practical_exercises.write_a_cpp_operator",
    case=_a_place("CPU", "lab"),
    expected=_right_cpp,
    drive=_drive_cpp,
    show=lambda device, kind, rows, cols, seed: f"{rows} by {cols}, {kind}, on {device}",
    picture=first_wrong_matrix,
    rung="boss",
    cases=12,
    sizes=5,
    seconds=20.0,
    tolerance=1e-12,
    minutes=25,
    processes=True,
    apart=True,
    stages=(
        Stage("contiguous", case=_a_place("CPU", kinds=("contiguous",)), cases=4),
        Stage("any layout", case=_a_place("CPU"), cases=6),
        Stage("on lab", case=_a_place("lab"), cases=6),
        Stage("all"),
    ),
    hints=(
        Hint("A function without C10_HOST_DEVICE is one of the host alone. Write it before each, "
             "also before those that you call yourself.",
             when=lambda e: e.kind == "raised" and "C10_HOST_DEVICE" in e.got),
        Hint("nan is what lies around the matrix: a column before the first, or behind the last, "
             "was read.", when=lambda e: e.kind == "value" and "nan" in e.got),
        Hint("The gradient is wrong. x[j] counts plus in out[j - 1] and minus in out[j + 1].",
             when=lambda e: e.value["difference"] == e.right["difference"]),
        Hint("Element (i, j) is x[i * row_step + j * col_step], its neighbours are col_step away.",
             stage="any layout"),
        Hint("On lab each element has a thread of its own, and the last may be first: compute it "
             "from x alone, and keep nothing between two calls.", stage="on lab"),
        "A neighbour beside the row counts as 0: ask where j is before you read it.",
    ),
    must_fail=(
        "ignores the strides",
        "reads beside the row",
        "gives the gradient the sign of the value",
        "leaves the border out",
        "is right only for rows without gaps",
        "is right where the elements come in order",
        "loops over the matrix itself",
        "is a function of the host alone",
        "computes in float",
        "gives the border no gradient",
    ),
)  # fmt: skip

EXERCISES = (
    never_freed, trace_through_autograd, profile_memory_allocation, analyse_the_dispatcher,
    write_a_cpp_operator,
)  # fmt: skip
