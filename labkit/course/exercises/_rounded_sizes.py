"""The boss of the allocator chapter: rounded size, pool and segment under any settings."""

from collections.abc import Iterator
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import CONSTANT, FIRST
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import MIB, is_small, round_size, segment_size


def _a_setting(rng: Rng) -> str:
    parts = []
    kind = rng.randint(0, 3)
    if kind == 1:
        parts.append(f"roundup_power2_divisions:{rng.choice((1, 2, 4, 8, 16))}")
    if kind >= 2:
        listed = sorted(rng.sample(range(16), rng.randint(1, 4)))
        entries = [f"{1 << place}:{rng.choice((0, 1, 2, 4, 8))}" for place in listed]
        if rng.chance(0.4):
            entries.append(f">:{rng.choice((1, 2, 4))}")
        parts.append(f"roundup_power2_divisions:[{','.join(entries)}]")
    if rng.chance(0.3):
        parts.append(f"large_segment_size_mb:{rng.choice((11, 12, 30, 40, 64))}")
    if rng.chance(0.15):
        parts.append("garbage_collection_threshold:0.8")
    rng.shuffle(parts)
    return ",".join(parts)


def _a_request(rng: Rng, size: int) -> int:
    """Bytes, mostly close to where a rule changes."""
    place = rng.choice(
        (512, 1024, 512 * rng.randint(1, 64), MIB, MIB, 10 * MIB, 10 * MIB, 20 * MIB)
        if size < 2 or rng.chance(0.5)
        else (1 << rng.randint(9, 36), 3 << rng.randint(9, 35), 512 * rng.randint(1, 1 << 20))
    )
    if rng.chance(0.2):
        place = rng.randint(1, 1 << rng.randint(10, 37))
    return max(1, place + rng.choice((-512, -1, 0, 0, 1, 511, 512, rng.randint(-9999, 9999))))


def _requests(rng: Rng, size: int) -> tuple[str, tuple[int, ...]]:
    return _a_setting(rng), tuple(_a_request(rng, size) for _ in range(100))


def _drive_sizes(answer: Any, settings: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    return {f"{size:,} bytes": answer(size, settings) for size in sizes}


def _expected_sizes(settings: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    options = AllocatorSettings.parse(settings)
    found = {}
    for size in sizes:
        block = round_size(size, options.roundup_power2_divisions)
        pool = "small" if is_small(block) else "large"
        found[f"{size:,} bytes"] = (block, pool, segment_size(block, options.large_segment_size))
    return found


def _fewer_sizes(settings: str, sizes: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    if len(sizes) > 1:
        yield from ((settings, (size,)) for size in sizes)
        yield from (("", (size,)) for size in sizes)
    else:
        yield from ((part, sizes) for part in settings.split(",") if "[" not in settings)


def _only_the_segment(settings: str, sizes: tuple[int, ...]) -> bool:
    return "large_segment" in settings and "roundup" not in settings


def _only_one_number(settings: str, sizes: tuple[int, ...]) -> bool:
    return "roundup" in settings and "[" not in settings


def _wrong_one(evidence: Evidence) -> tuple[int, Any, Any]:
    """(requested bytes, got, right) of the first request that differs."""
    for size in evidence.inputs[1]:
        name = f"{size:,} bytes"
        if evidence.value[name] != evidence.right[name]:
            return size, evidence.value[name], evidence.right[name]
    raise LookupError("nothing differs")


round_and_pool = Exercise(
    id="caching_allocator.round_and_pool",
    rules=("plain Python: nothing of labkit or torch",),
    case=_requests,
    expected=_expected_sizes,
    drive=_drive_sizes,
    smaller=_fewer_sizes,
    cases=200,
    rung="boss",
    minutes=25,
    stages=(
        Stage("no settings", only=lambda settings, _: not settings),
        Stage("segment size", only=_only_the_segment),
        Stage("one number", only=_only_one_number),
        Stage("a list"),
    ),
    banned=TORCH_AND_LABKIT,
    hints=(
        "Small means rounded size up to and including 1 MiB; a block of less than 10 MiB shares a "
        "segment of large_segment_size, others get their own in steps of 2 MiB. Round first, then "
        "ask which of the three it is.",
        Hint(
            "10 MiB - 1 rounds up to exactly 10 MiB, and that is no longer less than 10 MiB.",
            when=lambda evidence: _wrong_one(evidence)[2][0] == 10 * MIB,
        ),
        Hint(
            "A list gives one number per class: class = floor(log2(size)) - 20, clamped to 0..15. "
            "Only the first entry also covers the classes below it; those between two entries "
            "stay 0, and '>' fills what is above the last.",
            when=lambda evidence: "[" in evidence.inputs[0],
        ),
        "d divisions apply when d > 1 and size > 512 * d: the step is the power of two at or "
        "below the size, divided by d.",
    ),
    must_fail=(
        "rounds to powers of two",
        "1 MiB in the large pool",
        "ignores divisions",
        "interpolates sizes between listed classes",
        "10 MiB treated as shared",
        "off by one at exact multiples of 512",
        FIRST,
        CONSTANT,
    ),
)
