"""The small steps of the versions chapter: a check, what is kept, a gradient through a copy."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raises, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

RESULT = ("exp", "tanh", "sigmoid")
INPUT = ("sin", "cos", "square")


def _saved(rng: Rng, size: int) -> Case:
    now, then = rng.randint(0, 3), rng.randint(0, 3)
    memory = [float(rng.randint(-4, 4)) for _ in range(size)]
    text = f"is at version {now}; expected version {then} instead"
    truth = memory if now == then else Raises(RuntimeError, text)
    return Case(((memory, [now], then),), truth)


unpack = Exercise(
    id="versions.unpack",
    case=_saved,
    rung="warm-up",
    cases=60,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "version is a list with one number: version[0] is the version of now.",
            when=lambda e: e.kind == "raised" and ("TypeError" in e.got or "version [" in e.got),
        ),
        Hint(
            "Here both numbers are equal, so the memory is returned.",
            when=lambda e: e.inputs[0][1][0] == e.inputs[0][2],
        ),
        Hint(
            "First the version of now, then the noted one: is at version ...; expected version ...",
            when=lambda e: e.kind == "raised" and "RuntimeError" in e.got,
        ),
        Hint(
            "Any other version is refused, a smaller one, too.",
            when=lambda e: e.kind == "value",
        ),
    ),
    must_fail=(
        "never refuses",
        "refuses larger versions alone",
        "changes the two numbers round",
        "returns the whole of what was saved",
        "compares the list with the number",
    ),
)


def _operation(rng: Rng, size: int) -> tuple[str, str, list[str], dict[str, bool]]:
    operation = rng.choice((*RESULT, *INPUT, "mul", "mul", "mul", "add", "neg", "view"))
    two = operation in ("mul", "add")
    inputs = rng.sample(["a", "b", "c"], 2) if two else [rng.choice("abc")]
    needs = {one: rng.chance(0.6) for one in "abc"}
    return operation, "t0", inputs, needs


def _kept(operation: str, name: str, inputs: list[str], needs: dict[str, bool]) -> list[str]:
    if not any(needs[one] for one in inputs):
        return []
    if operation == "mul":
        return sorted(inputs[1 - n] for n in (0, 1) if needs[inputs[n]])
    return [name] if operation in RESULT else inputs if operation in INPUT else []


def _drive_kept(answer: Any, *inputs: Any) -> Any:
    """The names, in an order of their own."""
    found = answer(*inputs)
    return sorted(found) if isinstance(found, list | tuple) else found


kept_by = Exercise(
    id="versions.kept_by",
    case=_operation,
    expected=_kept,
    drive=_drive_kept,
    rung="warm-up",
    cases=150,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "No input of {input} needs a gradient. Then there is no node, and nothing is kept.",
            when=lambda e: not any(e.inputs[3][one] for one in e.inputs[2]),
        ),
        Hint(
            "The gradient of one factor needs the other one: it is kept if the one needs a "
            "gradient, whether or not the other does.",
            when=lambda e: e.inputs[0] == "mul",
        ),
        Hint(
            "The answer is a list of names, also where it is empty.",
            when=lambda e: e.kind == "value" and not isinstance(e.value, list),
        ),
        "Four cases, one after another: nobody needs a gradient; the result is kept; the input is "
        "kept; a product.",
    ),
    must_fail=(
        "keeps though nobody needs a gradient",
        "keeps both factors whenever one needs a gradient",
        "keeps the factor that needs a gradient",
        "keeps the input of exp",
    ),
)


def _a_write(rng: Rng, size: int) -> tuple[list[float], list[int], float]:
    grad = [float(rng.randint(-5, 5)) for _ in range(1 + size)]
    places = sorted(rng.sample(range(len(grad)), rng.randint(0, len(grad))))
    return grad, places, rng.choice((2.0, -1.0, 0.0, 0.5))


def _copied(grad: list[float], places: list[int], factor: float) -> list[float]:
    return [g * factor if place in places else g for place, g in enumerate(grad)]


through_copy = Exercise(
    id="versions.through_copy",
    case=_a_write,
    expected=_copied,
    rung="warm-up",
    cases=60,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The list you were given has changed: make a new one.",
            when=lambda e: e.kind == "mutated",
        ),
        Hint(
            "A place that was not written is not zero: its gradient goes on unchanged.",
            when=lambda e: isinstance(e.value, list) and len(e.value) == len(e.right),
        ),
        "Go through the gradient with enumerate: is this place one of the places?",
        "One number per place of the base: as many as came in.",
    ),
    must_fail=(
        "gives zero where nothing was written",
        "returns the written places alone",
        "multiplies everywhere",
        "writes into the gradient",
    ),
)
