"""The small steps of a training pipeline: when to step, and how large each group is."""

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST


def _steps_after(count: int, k: int) -> list[int]:
    return [at for at in range(count) if (at + 1) % k == 0 or at == count - 1]


def _loop(rng: Rng, size: int) -> tuple[int, int]:
    return rng.randint(0, 3 * size), rng.randint(1, 2 + size)


def _whole_groups(rng: Rng, size: int) -> tuple[int, int]:
    k = rng.randint(1, 4)
    return k * rng.randint(1, 1 + size), k


steps_after = Exercise(
    id="training_pipeline.steps_after",
    case=_loop,
    expected=_steps_after,
    rung="warm-up",
    minutes=3,
    cases=60,
    stages=(Stage("whole groups", case=_whole_groups), Stage("any count")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda count, k: f"count = {count}, k = {k}",
    hints=(
        Hint(
            "The last group is smaller here, and its step is missing.",
            when=lambda e: bool(e.right) and (not e.value or e.value[-1] != e.right[-1]),
            stage="any count",
        ),
        Hint(
            "You step after batch 0, when only one batch has been added.",
            when=lambda e: e.inputs[1] > 1 and e.value[:1] == [0] and e.right[:1] != [0],
        ),
        Hint(
            "You name a batch more than once. Is the last batch the end of a whole group, too?",
            when=lambda e: len(set(e.value)) < len(e.value),
        ),
        "After batch i, i + 1 batches have been seen.",
        "(i + 1) % k == 0, or i is the last one.",
    ),
    must_fail=("steps at i % k", "forgets the last group", "steps twice at the end", FIRST),
)


def _group_size(at: int, count: int, k: int) -> int:
    return min(k, count - at // k * k)


def _place(rng: Rng, size: int) -> tuple[int, int, int]:
    count = rng.randint(1, 2 + 4 * size)
    return rng.randrange(count), count, rng.randint(1, 3 + size)


group_size = Exercise(
    id="training_pipeline.group_size",
    case=_place,
    expected=_group_size,
    rung="warm-up",
    minutes=3,
    cases=80,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    show=lambda at, count, k: f"at = {at}, count = {count}, k = {k}",
    hints=(
        Hint(
            "This batch is in the last group, which has only {expected}.",
            when=lambda e: e.value == e.inputs[2] and e.right < e.inputs[2],
        ),
        Hint(
            "No group is empty. Where count is a multiple of k, the remainder is 0, and the last "
            "group is whole.",
            when=lambda e: e.value == 0,
        ),
        "The group of batch `at` begins at batch at // k * k.",
        "count minus this beginning are left; a group takes k of them at most.",
    ),
    must_fail=(
        "always k",
        "what is left of the division",
        "what is left after the batch",
        "an empty last group",
        FIRST,
    ),
)
