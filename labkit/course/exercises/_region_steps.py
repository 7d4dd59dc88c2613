"""The small steps of computing a part: what changed, how far a pixel is read, whom it reaches."""

from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

# --- largest_change


def _frames(rng: Rng, size: int, bytes_too: bool = True) -> tuple[Any, ...]:
    dtype = torch.uint8 if bytes_too and size != 5 and rng.chance(0.7) else torch.int16
    shape = rng.randint(1, 2 + size), rng.randint(1, 2 + size)
    old = torch.randint(0, 256, shape, generator=rng.generator())
    new = old.clone()
    for _ in range(rng.randint(0, 3)):
        new[rng.randrange(shape[0]), rng.randrange(shape[1])] = rng.randint(0, 255)
    if size == 5:  # more than 16 bits hold
        new[0, 0], old[0, 0] = rng.choice(((30_000, -30_000), (-32_768, 32_767)))
    old, new = old.to(dtype), new.to(dtype)
    return (old.T, new.T) if size == 3 else (old, new)  # as a part of a frame: with gaps


def _largest_change(old: torch.Tensor, new: torch.Tensor) -> int:
    return int((new.long() - old.long()).abs().max())


def _brighter_alone(e: Any) -> bool:
    """A difference that wrapped in int16 may come out like that, and is told of first."""
    old, new = e.inputs
    brighter = max(0, int((new.long() - old.long()).max()))
    return bool(e.right <= 32_767 and e.value == brighter != e.right)


largest_change = Exercise(
    id="regions.largest_change",
    case=_frames,
    expected=lambda old, new: _largest_change(old, new),
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(Stage("16 bits", case=lambda rng, size: _frames(rng, size, False)), Stage("bytes too")),
    rules=("torch may be used",),
    hints=(
        Hint("A step from 200 to 10 is 190, but in bytes 10 - 200 is 66: make the frames wider "
             "before you subtract.", stage="bytes too",
             when=lambda e: e.inputs[0].dtype == torch.uint8),
        Hint("30000 - -30000 is more than int16 holds.",
             when=lambda e: e.right > 32_767, stage="16 bits"),
        Hint("A pixel that became darker has changed, too.", when=_brighter_alone),
        "Subtract, take abs(), take max().",
        ".to(torch.int32) holds every difference of two bytes, and of two numbers of int16.",
    ),
    must_fail=("wraps in uint8", "brighter pixels only", "the mean", "gives a tensor",
               "int16 for int16", "contiguous frames only", FIRST),
)  # fmt: skip

# --- halo


def _a_trunk(rng: Rng, size: int, dilated: bool = True) -> tuple[list[tuple[int, int]]]:
    return (
        [
            (rng.choice((1, 3, 3, 5, 7)), rng.randint(1, 3) if dilated else 1)
            for _ in range(rng.randint(1 if size else 0, 2 + size // 2))
        ],
    )


def _halo(layers: list[tuple[int, int]]) -> int:
    return sum(kernel // 2 * dilation for kernel, dilation in layers)


halo_of = Exercise(
    id="regions.halo_of",
    case=_a_trunk,
    expected=lambda layers: _halo(layers),
    rung="warm-up",
    minutes=4,
    cases=60,
    stages=(Stage("side by side", case=lambda rng, size: _a_trunk(rng, size, False)),
            Stage("with gaps")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("{got} is the width of all that is read. The halo is what lies on one side.",
             when=lambda e: e.value > e.right and e.value in (
                 2 * e.right, 2 * e.right + 1, sum(k for k, _ in e.inputs[0]))),
        Hint("The last convolution reads results of the one before, which read further: add.",
             when=lambda e: 0 < e.value < e.right and len(e.inputs[0]) > 1
             and all(gap == 1 for _, gap in e.inputs[0])),
        Hint("Two pixels of the kernel are `dilation` pixels apart.", stage="with gaps"),
        "A kernel of 3 reads one pixel on each side, one of 5 reads two.",
        "Add kernel // 2 * dilation of all layers.",
    ),
    must_fail=("the widest layer alone", "both sides", "forgets the gaps", "kernels added", FIRST),
)  # fmt: skip

# --- touched_blocks


def _a_pixel(rng: Rng, size: int) -> tuple[int, int, int, int]:
    block, count = rng.randint(2, 4 + size), rng.randint(1, 3 + size)
    at = rng.choice((0, block * count - 1, rng.randrange(block * count)))
    return at, block, rng.randint(0, 3 + size), count


def _touched(at: int, block: int, halo: int, count: int) -> list[int]:
    return [
        n for n in range(count) if block * n - halo <= at < block * n + block + halo
    ]  # fmt: skip


def _blocks_drawn(case: Case, got: Any, right: Any) -> Any:
    from labkit import show

    at, block, halo, count = case.inputs
    if block * count > 90:
        return None
    spans = [
        {"lane": "blocks", "name": f"{n}", "start": block * n, "end": block * (n + 1)}
        for n in range(count)
    ]
    reached = {"lane": "reached", "name": "the pixel", "start": at - halo, "end": at + halo + 1}
    return show.timeline([*spans, reached], unit="pixels", title=f"pixel {at} reaches {halo} far")


touched_blocks = Exercise(
    id="regions.touched_blocks",
    case=_a_pixel,
    expected=_touched,
    picture=_blocks_drawn,
    rung="warm-up",
    minutes=4,
    cases=80,
    stages=(
        Stage("no halo", case=lambda rng, size: (*_a_pixel(rng, size)[:2], 0, 3 + size)),
        Stage("any halo"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The pixel's own block is one of them. Which others read it?",
             when=lambda e: e.value == [e.inputs[0] // e.inputs[1]] != e.right),
        Hint("There is no block before 0, and none behind the last one.",
             when=lambda e: any(not 0 <= n < e.inputs[3] for n in e.value)),
        "Results from at - halo to at + halo may change.",
        "Block n holds the pixels from n * size to n * size + size - 1.",
    ),
    must_fail=("its own block only", "one pixel too far", "beyond the frame",
               "both neighbours always", FIRST),
)  # fmt: skip
