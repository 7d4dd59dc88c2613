"""Mixed precision, fusion and batches: bytes of a step, traffic of a chain, the largest batch."""

import itertools
import weakref
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._amp_benefit import amp_benefit
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._mixed_steps import bytes_of_step, mixed_step
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "5_optimization/1_gpu_precision_fusion_batch"

# --- traffic

Steps = list[tuple[str, tuple[str, ...]]]


def _chain(rng: Rng, length: int, extra: float, back: float) -> tuple[Steps, dict[str, int]]:
    """Steps in a row, with a further input, or the result of an earlier step, now and then."""
    names = (f"t{number}" for number in itertools.count())
    pixels = 4 * rng.randint(10, 500)
    sizes, steps, last = {"x": pixels}, list[tuple[str, tuple[str, ...]]](), "x"
    for _ in range(length):
        inputs = [rng.choice(sorted(sizes)) if rng.chance(back) else last]
        if rng.chance(extra):
            inputs.append(rng.choice([last, "x", "mean", "noise"]))
        rng.shuffle(inputs)
        for name in inputs:
            sizes.setdefault(name, 12 if name == "mean" else pixels)
        last = next(names)
        sizes[last] = pixels
        steps.append((last, tuple(inputs)))
    return steps, sizes


def _traffic(steps: Steps, sizes: dict[str, int]) -> tuple[int, int]:
    eager = sum(sizes[out] + sum(sizes[name] for name in set(inputs)) for out, inputs in steps)
    made = {out for out, _ in steps}
    read = {name for _, inputs in steps for name in inputs}
    return eager, sum(sizes[name] for name in (read - made) | (made - read))


traffic = Exercise(
    id="gpu_precision_fusion_batch.traffic",
    case=lambda rng, size: _chain(rng, 1 + size, 0.4, 0.2 * (size > 4)),
    expected=_traffic,
    minutes=10,
    cases=60,
    stages=(
        Stage("a row", case=lambda rng, size: _chain(rng, 1 + size, 0, 0)),
        Stage("more inputs", case=lambda rng, size: _chain(rng, 1 + size, 0.5, 0)),
        Stage("any chain"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "The first number is wrong: a kernel reads a tensor once, also when it stands "
            "twice among the inputs of the step.",
            when=lambda e: (
                e.value[0] != e.right[0] and any(len(set(i)) < len(i) for _, i in e.inputs[0])
            ),
        ),
        Hint(
            "The first number is wrong: add, for each step, what it reads and what it writes.",
            when=lambda e: e.value[0] != e.right[0],
        ),
        Hint(
            "The second number is wrong: no step made `x`, `mean` or `noise`, so the one kernel "
            "reads each of them once, by their own sizes.",
            when=lambda e: len(e.right) == 2 and e.value[1] != e.right[1],
            stage="more inputs",
        ),
        Hint(
            "The second number is wrong: which tensors does a step read that no step made, and "
            "which does a step make that no step reads?",
            when=lambda e: e.value[1] != e.right[1],
        ),
        "Two sets of names: all that are made, and all that are read.",
        "read - made must come from memory; made - read must go there.",
    ),
    must_fail=(
        "two passes for every chain",
        "counts arithmetic",
        "reads a tensor twice that stands twice in a step",
        "reads an input again for every step that uses it",
        "counts every input as large as the film",
        "writes what lies between the steps",
        "writes the last result only",
        FIRST,
    ),
)

# --- batch_search


class Bug(RuntimeError):
    """What a wrong model raises: a RuntimeError, as PyTorch's own errors are."""


class Device:
    """Room for `room` pictures; a result holds its own until nobody holds the result.

    breaks_at   from this batch on, the model has a bug
    """

    def __init__(self, room: int, breaks_at: int | None) -> None:
        self.room, self.breaks_at = room, breaks_at
        self.taken, self.trials, self.steps = 0, list[int](), 0

    def run(self, batch: int) -> "Result":
        """The model's result for a batch.

        Raises   torch.OutOfMemoryError   no room
        """
        self.trials.append(batch)
        if not isinstance(batch, int) or batch < 1:
            raise TypeError(f"a batch is a whole number from 1 on, got {batch!r}")
        if self.breaks_at is not None and batch >= self.breaks_at:
            raise Bug(f"mat1 and mat2 shapes cannot be multiplied ({batch}x12 and 16x3)")
        if self.taken + batch > self.room:
            raise torch.OutOfMemoryError(
                f"Tried to allocate {batch} pictures; {self.room - self.taken} are free"
            )
        return Result(self, batch)


class Result:
    """Room on the device, for as long as this lives."""

    def __init__(self, device: Device, batch: int) -> None:
        self.device, self.batch = device, batch
        device.taken += batch
        weakref.finalize(self, _give_back, device, batch)

    def backward(self) -> None:
        """The gradients; while they are computed they take as much room again.

        Raises   torch.OutOfMemoryError   no room
        """
        self.device.steps += 1
        if self.device.taken + self.batch > self.device.room:
            raise torch.OutOfMemoryError(
                f"Tried to allocate {self.batch} gradients; "
                f"{self.device.room - self.device.taken} are free"
            )


@handed_out
def _give_back(device: Device, batch: int) -> None:
    device.taken -= batch


def most_trials(room: int) -> int:
    """Doubling up to the first batch that fails, then halving the gap."""
    return 2 * room.bit_length() + 1


def _drive_search(answer: Any, room: int, breaks_at: int | None, training: bool) -> dict[str, Any]:
    device = Device(room, breaks_at)
    try:
        found = answer(device.run, training)
    except Bug:
        found = "the model's own error"
    return {
        "answer": found,
        "tried": device.trials[:20],
        "trials": len(device.trials),
        "backward passes": device.steps,
    }


def _judge_search(case: Case, got: Any) -> Any:
    room, breaks_at, training = case.inputs
    from labkit.course.exercise import Raised, Wrong

    if isinstance(got, Raised):
        return "batch_search(run, training) returns a number or None"
    right = (room // 2 if training else room) or None
    if breaks_at is not None:
        right = "the model's own error"
    if got["answer"] != right or isinstance(got["answer"], bool):
        return Wrong("the largest batch that fits", right)
    if not training and got["backward passes"]:
        return "no backward pass where nothing is trained"
    if got["trials"] > most_trials(room):
        return Wrong(f"at most {most_trials(room)} trials for {room} pictures")
    return None


def _said_of_a_device(room: int, breaks_at: int | None, training: bool) -> str:
    bug = f"; a bug of the model from batch {breaks_at} on" if breaks_at else ""
    return f"a device with room for {room} pictures{bug}{'; training' if training else ''}"


batch_search = Exercise(
    id="gpu_precision_fusion_batch.batch_search",
    case=lambda rng, size: _a_device(rng, size),
    judge=_judge_search,
    drive=_drive_search,
    minutes=15,
    cases=60,
    stages=(
        Stage("some fit", case=lambda rng, size: (rng.randint(1, 1 + 4**size), None, False)),
        Stage("none fits", case=lambda rng, size: (0, None, False), cases=3),
        Stage(
            "a bug", case=lambda rng, size: (rng.randint(8, 9 + 4**size), rng.randint(1, 8), False)
        ),
        Stage("training", case=lambda rng, size: (rng.randint(0, 1 + 4**size), None, True)),
        Stage("together"),
    ),
    rules=("catch nothing but running out of memory",),
    show=_said_of_a_device,
    hints=(
        Hint(
            "The model has a bug, and your search took its error for a full device. Which class "
            "do you catch?",
            when=lambda e: e.inputs[1] is not None and e.value["answer"] != "",
            stage="a bug",
        ),
        Hint(
            "Not even one picture fits. Then the answer is None.",
            when=lambda e: e.inputs[0] == 0,
        ),
        Hint(
            "Too many trials. Double the batch until it fails, then halve the gap.",
            when=lambda e: e.value["trials"] > most_trials(e.inputs[0]),
        ),
        Hint(
            "Where training is True the work is a whole step, run(batch).backward(), and both may "
            "run out of room. Where it is False, no backward pass.",
            when=lambda e: (
                isinstance(e.value, dict) and bool(e.value["backward passes"]) != bool(e.inputs[2])
            ),
        ),
        Hint(
            "The step that failed still takes room: an error kept by a name keeps all that was "
            "alive when it was raised.",
            when=lambda e: (
                e.inputs[2]
                and isinstance(e.value["answer"], int)
                and e.value["answer"] < e.inputs[0] // 2
            ),
        ),
        Hint(
            "Your answer is too small: more would fit. Is the result of the trial before still "
            "held by a name while the next one runs? It takes room.",
            when=lambda e: isinstance(e.value["answer"], int) and e.value["answer"] < e.inputs[0],
        ),
        "Write fits(batch) first: True, or False when torch.OutOfMemoryError comes.",
        "Keep two numbers: the largest batch that fitted, and the smallest that did not.",
    ),
    must_fail=(
        "stops at 128",
        "catches every RuntimeError",
        "holds the result of the trial before",
        "answers 1 when nothing fits",
        "only doubles",
        "tries one after the other",
        "catches every exception and returns a default",
        "forward only when training is asked",
        "backward when nothing is trained",
        "keeps the error of a failed step",
        FIRST,
    ),
)


def _a_device(rng: Rng, size: int) -> tuple[int, int | None, bool]:
    room = rng.choice((0, 1, 2, 3, rng.randint(1, 5**size), 2**size, 2**size - 1, 2**size + 1))
    breaks_at = rng.randint(1, max(room // 4, 1)) if rng.chance(0.2) else None
    return room, breaks_at, rng.chance(0.4)


EXERCISES = (bytes_of_step, mixed_step, traffic, batch_search, amp_benefit)
