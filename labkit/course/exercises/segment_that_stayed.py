"""A large segment that cannot go back: who pins it, which rule let it happen, what would help."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises import _regression
from labkit.course.exercises._drawn_segments import drawn
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST, READS
from labkit.course.exercises._oversize_rules import (
    CONFIGURATIONS,
    HALF,
    OF_2020,
    TODAY,
    drawn_request,
    finishes_by,
    first_difference,
    right_pair,
)
from labkit.course.exercises._regression import red_or_green
from labkit.course.exercises._stayed_recordings import KINDS, run_that_died
from labkit.memory.sizes import MIB

NOTEBOOK = "6_capstones/1_the_segment_that_stayed"


# --- alone


def _a_segment(rng: Rng, size: int) -> Case:
    states = ["inactive"] + ["active_allocated"] * rng.choice((0, 1, 1, 1, 2, 3))
    blocks: list[dict[str, Any]] = []
    for state in rng.sample(states, len(states)):
        length = rng.randint(1, 40) * MIB
        blocks.append({"address": len(blocks) << 28, "size": length, "state": state})
    live = [block for block in blocks if block["state"] == "active_allocated"]
    truth = _named(live[0]) if len(live) == 1 else None
    return Case(({"total_size": sum(b["size"] for b in blocks), "blocks": blocks},), truth=truth)


@handed_out
def _named(block: dict[str, Any]) -> str:
    return f"block {1 + (block['address'] >> 28)}, of {block['size'] // MIB} MiB"


@handed_out
def _drive_alone(answer: Any, segment: dict[str, Any]) -> Any:
    """Which block was named."""
    found = answer(segment)
    return _named(found) if isinstance(found, dict) and "address" in found else found


def _in_mib(segment: dict[str, Any]) -> str:
    blocks = (
        f"{b['size'] // MIB}{'' if b['state'] == 'inactive' else '*'}" for b in segment["blocks"]
    )
    return f"blocks in MiB, live ones with a star: {' + '.join(blocks)}"


alone = Exercise(
    id="segment_that_stayed.alone",
    case=_a_segment,
    drive=_drive_alone,
    show=_in_mib,
    rung="warm-up",
    cases=60,
    minutes=2,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    picture=lambda case, got, right: drawn(
        [[(b["size"], b["state"] == "active_allocated") for b in case.inputs[0]["blocks"]]],
        "the segment",
    ),
    hints=(
        Hint(
            "More than one block is live here, or none: return None.",
            when=lambda e: e.right is None,
        ),
        "Collect the blocks whose state is active_allocated.",
        "Return the block itself, not its size or address.",
    ),
    must_fail=(
        "names the first live block of several",
        "names the largest block",
        "names a free block",
        "fails where nothing is live",
    ),
)


# --- oversize

NEW = "a new segment"


def _asked(rng: Rng, size: int) -> Case:
    if rng.chance(0.2):
        limit = rng.choice((20, 40)) * MIB
        return Case((NEW, (rng.randrange(2, 10) * MIB, 20 * MIB, limit)))
    return Case(("rules", drawn_request(rng, size)))


def _recorded(rng: Rng, size: int) -> Case:
    return Case(("recording", (rng.choice(CONFIGURATIONS), rng.randrange(40))))


def _either(rng: Rng, size: int) -> Case:
    return _recorded(rng, size) if rng.chance(0.1) else _asked(rng, size)


@handed_out
def _drive_rules(answer: Any, what: str, inputs: tuple[Any, ...]) -> Any:
    """What the two rules say, or where PyTorch's recording is left."""
    takes, cuts = answer
    if what == "recording":
        return first_difference(takes, cuts, *inputs)
    size, block, limit = inputs
    took = what == NEW or bool(takes(size, block, limit))
    return took, bool(cuts(size, block, limit)) if took else None


def _right_rules(what: str, inputs: tuple[Any, ...]) -> Any:
    if what == "recording":
        return ""
    takes, cuts = right_pair(*inputs)
    return (True, cuts) if takes or what == NEW else (False, None)


def _shown(what: str, inputs: tuple[Any, ...]) -> str:
    if what == "recording":
        return f"PyTorch's recording {inputs[0]}, program {inputs[1]}"
    size, block, limit = (f"{value / MIB:g} MiB" for value in inputs)
    limit = "not set" if inputs[2] >= 2**60 else limit
    block = f"a new segment of {block}" if what == NEW else f"block {block}"
    return f"size {size}, {block}, limit {limit}; (takes, cuts)"


oversize = Exercise(
    id="segment_that_stayed.oversize",
    case=_either,
    expected=_right_rules,
    drive=_drive_rules,
    show=_shown,
    rules=("plain Python: nothing of labkit or torch",),
    cases=200,
    minutes=12,
    stages=(
        Stage("small requests", case=_asked, only=lambda what, i: i[0] < i[2], cases=40),
        Stage("oversize requests", case=_asked, only=lambda what, i: i[0] >= i[2], cases=40),
        Stage("recordings", case=_recorded, cases=12),
        Stage("all"),
    ),
    hints=(
        Hint(
            "A new segment is cut, too, also one of limit bytes or more. `cuts` looks at the size "
            "of the request, not of the block.",
            stage="small requests",
            when=lambda e: e.inputs[0] == NEW,
        ),
        Hint(
            "A request below the limit may not touch a free an oversize block, of limit bytes "
            "or more.",
            stage="small requests",
            when=lambda e: e.inputs[1][1] >= e.inputs[1][2],
        ),
        Hint(
            "Below the limit all is as in 2020: the block serves, and is cut if more than 1 MiB is "
            "left.",
            stage="small requests",
        ),
        Hint(
            "An oversize request takes only a block less than 20 MiB larger than it, and never "
            "cuts it.",
            stage="oversize requests",
        ),
        Hint("Is a request of exactly limit bytes oversize?", stage="recordings"),
        "Both rules begin with the same question: is the request itself oversize, size >= limit?",
    ),
    must_fail=(
        "the rules of 2020",
        "cuts oversize blocks for oversize requests",
        "leaves a new oversize segment uncut",
        "lets small requests take oversize blocks whole",
        "lets an oversize request take any larger block",
        "calls a request of exactly the limit small",
        "cuts off a rest of exactly 1 MiB",
    ),
)


# --- rounding


def _asked_within(rng: Rng, size: int) -> tuple[int, int, int, int]:
    """A request, a block at least as large, and both settings; often near a border."""
    asked, _, limit = drawn_request(rng, size)
    rounding = rng.choice((20, 24, 64, 200)) * MIB
    more = rng.choice((0, rounding, rounding - 512, rng.randrange(300) * MIB))
    return asked, rng.choice((asked + more, max(asked, limit))), limit, rounding


def _taken(size: int, block: int, limit: int, rounding: int) -> bool:
    return block < size + rounding if size >= limit else block < limit


rounding = Exercise(
    id="segment_that_stayed.rounding",
    case=_asked_within,
    expected=_taken,
    drive=lambda answer, *inputs: bool(answer(*inputs)),
    show=lambda *inputs: "size {}, block {}, limit {}, rounding {}".format(
        *("not set" if value >= 2**60 else f"{value / MIB:g} MiB" for value in inputs)
    ),
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "For a request below the limit nothing is new: it takes no oversize block.",
            when=lambda e: e.inputs[0] < e.inputs[2],
        ),
        "Which number of your `takes` does max_non_split_rounding_mb replace?",
        "It is the 20 MiB that a block may be larger than an oversize request.",
    ),
    must_fail=(
        "still says 20 MiB",
        "asks for at most the rounding more",
        "lets a small request take an oversize block within the rounding",
        "compares the block with the rounding alone",
    ),
)


# --- regression_test


@handed_out
def _drive_test(answer: Any, side: str) -> str:
    """Whether the answer's test is red or green under these rules."""
    return red_or_green(answer, finishes_by(side))


regression_test = _regression.regression_test(
    "segment_that_stayed.regression_test",
    drive=_drive_test,
    green=("green today", TODAY),
    red=("red in 2020", OF_2020),
    half=HALF,
    minutes=11,
    hints=(
        Hint(
            "By the rules of 2020 the program of the puzzle runs out: assert that it finishes.",
            stage="red in 2020",
        ),
        Hint(
            "By the rules of today this test must pass, and it did not. Is the device large enough "
            "for the segments that stay?",
            stage="green today",
        ),
        Hint(
            "Free a block of 100, ask for 30, and then for 100: who has taken the block?",
            when=lambda e: "any size" in e.input,
        ),
        Hint(
            "An oversize request that is a little smaller than a free block leaves a rest. If it "
            "is cut off, who moves in, and what if the block is wanted again?",
            when=lambda e: "is cut for" in e.input,
        ),
        Hint(
            "Requests of 5 share a new segment of 20. On a device of 20, do four of them fit?",
            when=lambda e: "segment is not cut" in e.input or "no free block" in e.input,
        ),
        "One line for each way to be wrong: assert finishes(program, total).",
        "A half repair is caught by a program that finishes by the rules of today and not by it.",
    ),
    must_fail=(
        "also passes with the rules of 2020",
        "fails by the rules of today",
        "tests the puzzle alone",
        "forgets that new segments are cut",
        "looks at one request after the free alone",
    ),
)


# --- autopsy


def _of(*kinds: str) -> Any:
    return lambda rng, size: run_that_died(rng, *kinds)


def _map(case: Case, got: Any, right: Any) -> Any:
    """The memory at the request that failed."""
    from labkit import show

    return show.memory(case.inputs[0], what_if=(), autopsy=())


def _told(snapshot: dict[str, Any], failed: dict[str, int], total: int) -> str:
    segments = [
        "+".join(
            f"{b['size'] // MIB}{'' if b['state'] == 'inactive' else '*'}" for b in one["blocks"]
        )
        for one in snapshot["segments"]
    ]
    growing = snapshot["allocator_settings"]["expandable_segments"]
    return (
        f"{failed['size'] // MIB} MiB wanted, {failed['device_free'] // MIB} free on a device of "
        f"{total // MIB}, expandable_segments:{growing}; blocks in MiB, live "
        f"ones with a star: {' | '.join(segments)}"
    )


autopsy = Exercise(
    id="segment_that_stayed.autopsy",
    case=_of(*KINDS, "pinned"),
    show=_told,
    picture=_map,
    rules=("no torch; of labkit, replay",),
    banned=("torch.*",),
    cases=44,
    minutes=12,
    stages=(
        Stage("capacity", case=_of("capacity"), cases=6),
        Stage("pinned", case=_of("pinned"), cases=12),
        Stage("scattered", case=_of("scattered", "paged"), cases=10),
        Stage("all recordings"),
    ),
    hints=(
        Hint(
            "Here what is live and the request are more than the device has: capacity, whatever "
            "the map looks like.",
            when=lambda e: e.right[0] == "capacity" and e.value is not None,
        ),
        Hint(
            "Which segments hold idle bytes for one live block alone? Which of them, given back, "
            "would let the request in, and holds most?",
            when=lambda e: e.right[0] == "pinned" and e.value and e.value[:2] != e.right[:2],
        ),
        Hint(
            "A segment with one live block is not enough: had it gone back, the request must fit.",
            when=lambda e: e.right[0] == "scattered" and e.value and e.value[0] == "pinned",
        ),
        Hint(
            "No setting of the two lets this run finish: 'less memory'.",
            when=lambda e: e.right[2] == "less memory",
        ),
        Hint(
            "Both settings may let a run finish. Compare peak_reserved of the two replays.",
            when=lambda e: bool(e.value) and e.value[:2] == e.right[:2],
        ),
        "First the three numbers: live, wanted, total. Then the segments. The remedy by replay.",
        "replay(snapshot, name, device_total=total): ran_out is None where the run finished.",
    ),
    must_fail=(
        "always suggests expandable segments",
        "suggests less memory in every case",
        "names the largest block",
        "says pinned wherever one block is alone",
        "replays on a bigger device",
        "drops frees from the recording",
        "takes the first setting that helps",
        FIRST,
        READS,
    ),
)

EXERCISES = (alone, oversize, rounding, regression_test, autopsy)
