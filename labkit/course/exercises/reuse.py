"""Memory used twice: a pool that lends, batches that adapt, a plan for checkpoints."""

import weakref
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._borrowers import tensor_pool, used_after_return
from labkit.course.exercises._policies import checkpoint_policy
from labkit.course.exercises._reuse_steps import first_fit, next_size

NOTEBOOK = "5_optimization/4_memory"

# --- adaptive_batches


class Room:
    """A device that changes: at attempt n there is room for rooms[n], and the last one stays."""

    def __init__(self, rooms: list[int]) -> None:
        self.rooms, self.sizes, self.taken = rooms, list[int](), 0

    def run(self, batch: Any) -> list[int]:
        """The batch, each number times ten.

        Raises   torch.OutOfMemoryError   no room
        """
        room = self.rooms[min(len(self.sizes), len(self.rooms) - 1)]
        self.sizes.append(len(batch))
        if len(self.sizes) > 5_000:
            raise RuntimeError("5,000 attempts: this does not end")
        if not len(batch):
            raise RuntimeError("an empty batch")
        attempt = _Attempt(self, min(len(batch), room - self.taken))
        if len(batch) > attempt.items:
            raise torch.OutOfMemoryError(f"no room for {len(batch)}")
        return [10 * item for item in batch]


class _Attempt:
    """The room that one call takes. An error that is kept keeps the call's variables, and so it."""

    def __init__(self, device: Room, items: int) -> None:
        self.items = items
        device.taken += items
        weakref.finalize(self, _give_back, device, items)


@handed_out
def _give_back(device: Room, items: int) -> None:
    device.taken -= items


def _rooms(rng: Rng, size: int, kind: str = "") -> tuple[int, list[int], str]:
    kind = kind or rng.choice(("stable", "moves", "nothing fits"))
    if kind == "stable":
        room = rng.randint(1, 3 + 4 * size)
        return 60 * room + rng.randint(0, 3), [room], kind
    if kind == "nothing fits":
        return rng.randint(1, 30), [0], kind
    return 200, [rng.randint(1, 20) for _ in range(30)], kind


def _drive_adaptive(answer: Any, count: int, rooms: list[int], kind: str) -> dict[str, Any]:
    device, ended = Room(rooms), "in order"
    found: Any = None
    try:
        found = answer(device.run, list(range(count)))
    except torch.OutOfMemoryError:
        ended = "torch.OutOfMemoryError"
    return {"results": found, "ended": ended, "attempts": len(device.sizes)}


def _judge_adaptive(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "adaptive_batches(run, items) ends, and returns a list"
    count, rooms, kind = case.inputs
    ended = "torch.OutOfMemoryError" if kind == "nothing fits" else "in order"
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if ended == "in order" and got["results"] != [10 * n for n in range(count)]:
        return Wrong("a result for every item, once, in order", [10 * n for n in range(count)])
    if kind == "stable":
        most = -(-count // rooms[0]) + 2 * rooms[0].bit_length() + 2
        if got["attempts"] > most:
            return Wrong(f"at most {most} attempts: {count} items, room for {rooms[0]}")
    return None


def _told(count: int, rooms: list[int], kind: str) -> str:
    room = rooms[0] if len(rooms) == 1 else f"{', '.join(map(str, rooms[:8]))}, ..."
    return f"{count} items; room for {room}"


adaptive_batches = Exercise(
    id="reuse.adaptive_batches",
    case=_rooms,
    judge=_judge_adaptive,
    drive=_drive_adaptive,
    show=_told,
    minutes=12,
    cases=60,
    stages=(
        Stage("it ends", case=lambda rng, size: _rooms(rng, size, "nothing fits"), cases=5),
        Stage("every result", case=lambda rng, size: _rooms(rng, size, "moves")),
        Stage("few attempts", case=lambda rng, size: _rooms(rng, size, "stable")),
        Stage("together"),
    ),
    rules=("catch nothing but torch.OutOfMemoryError",),
    banned=("labkit.*",),
    hints=(
        Hint("{input}: when a single item does not fit, there is nothing smaller. `raise`.",
             when=lambda e: e.inputs[2] == "nothing fits"),
        Hint("Results are missing, or come twice: extend the list, and go on behind what has "
             "succeeded.", when=lambda e: "every item" in e.property),
        Hint("It goes on failing: {input}. Remember the smallest size that failed, and do not "
             "try it again.", when=lambda e: "attempts" in e.property and "ends" not in e.property),
        Hint("It did not end: here room becomes less, and a size that fitted fails. Then `fits` "
             "says nothing any more: begin again with fits = 0.",
             when=lambda e: "5,000" in e.got),
        Hint("It ended with an error though every item fits alone: there is less room than "
             "before. What fitted once need not fit now. Or an error is kept, or its `except` not "
             "yet left: then what the failed call had still takes room.",
             when=lambda e: e.inputs[2] == "moves"),
        "Keep fits = 0 and fails = None. Without fails, double; with it, take the middle.",
        "When a size fails that had fitted before, begin again: fits = 0.",
    ),
    must_fail=(
        "drops results",
        "doubles for ever",
        "endless at 1",
        "catches by text",
        "forgets the ceiling",
        "one item at a time",
        "keeps the error of a failed attempt",
        "goes on inside of the except",
    ),
)  # fmt: skip

EXERCISES = (
    first_fit,
    tensor_pool,
    used_after_return,
    next_size,
    adaptive_batches,
    checkpoint_policy,
)
