"""Settings strings: recorded readings, and the installed PyTorch's own parser asked live."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from labkit.conformance.report import Comparison
from labkit.conformance.tally import Tally
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import GIB

PARSER_RELEASE = "2.13"
"""The release whose parser is rebuilt; others refuse and accept other strings."""

WORDS = (
    *("max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb"),
    *("garbage_collection_threshold", "roundup_power2_divisions", "expandable_segments"),
    *("pinned_use_background_threads", "pinned_max_round_threshold_mb"),
    *("0", "1", "2", "3", "4", "8", "10", "11", "19", "20", "25", "40", "64", "-1", "+40", "0x20"),
    *("0.5", "1.0", "0.5x", "nan", ".25", "1e-3", "1e-400", "True", "False", "true", ">", "x", ""),
    *("18446744073709551616", "99999999999999999999999"),
)  # fmt: skip


def compare_recorded(recording: dict[str, Any]) -> Iterator[Comparison]:
    """What strings mean, alone and one after the other, and which sizes they give."""
    parsed = [(case["settings"], _read(case["settings"]), case) for case in recording["parse"]]
    yield _comparison("settings strings", parsed)
    yield _comparison("settings strings, one after the other", _sequences(recording))
    yield from _sizes(recording)


def compare_installed(seed: int, count: int) -> Iterator[Comparison]:
    """Random strings, read here and by the parser of the installed PyTorch.

    Only whether a string is refused, and with which error, can be seen from outside. The parser
    keeps `large_segment_size_mb` between strings, so each one starts from the default.
    """
    set_settings = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if set_settings is None or not torch.__version__.startswith(PARSER_RELEASE):
        return
    with_cuda = torch.version.cuda is not None
    chooser = random.Random(seed)
    tally = Tally("random settings strings, installed PyTorch")
    for _ in range(count):
        text = _random_settings(chooser)
        set_settings("large_segment_size_mb:20")
        theirs = _error_of(set_settings, text)
        ours = _error_of(AllocatorSettings.parse, text, None, with_cuda)
        tally.add(ours, theirs, f"settings {text!r}")
    set_settings("large_segment_size_mb:20,expandable_segments:False")
    set_settings("")
    yield tally.result()


def _random_settings(chooser: random.Random) -> str:
    """Mostly well-formed keys and values, with tokens lost, doubled and mixed."""
    parts = []
    for _ in range(chooser.randrange(1, 4)):
        key, value = chooser.choice(WORDS[:8]), chooser.choice(WORDS)
        if key == "roundup_power2_divisions" and chooser.random() < 0.7:
            pairs = [
                f"{chooser.choice(['1', '2', '4', '64', '>', '3'])}:{chooser.choice(WORDS[8:14])}"
                for _ in range(chooser.randrange(4))
            ]
            value = f"[{','.join(pairs)}]"
        parts.append(f"{key}:{value}")
    text = ",".join(parts)
    if chooser.random() < 0.4:
        place = chooser.randrange(len(text))
        text = text[:place] + chooser.choice(["", ",", ":", "[", "]", " "]) + text[place + 1 :]
    return text


def _error_of(parse: Callable[..., Any], *arguments: Any) -> str | None:
    try:
        parse(*arguments)
    except (ValueError, IndexError, RuntimeError) as error:
        return type(error).__name__
    return None


def _read(text: str, before: AllocatorSettings | None = None) -> dict[str, Any]:
    try:
        effective = AllocatorSettings.parse(text, before).snapshot()
    except (ValueError, IndexError, RuntimeError) as error:
        return {"error": type(error).__name__, "message": str(error)}
    keys = ("max_split_size", "garbage_collection_threshold", "expandable_segments",
            "roundup_power2_divisions")  # fmt: skip
    return {"effective": {key: effective[key] for key in keys}}


def _sequences(recording: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for sequence in recording["parse_sequences"]:
        before = AllocatorSettings()
        for case in sequence:
            yield case["settings"], _read(case["settings"], before), case
            if "error" not in case:
                before = AllocatorSettings.parse(case["settings"], before)


def _comparison(what: str, cases: Any) -> Comparison:
    tally = Tally(what)
    for text, ours, recorded in cases:
        said = f"settings {text!r}\n  recorded {recorded}\n  labkit   {ours}"
        tally.note("" if _same(ours, recorded) else said)
    return tally.result()


def _same(ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """Equal effect, or the same class of error with a text that starts with PyTorch's."""
    if "error" not in recorded:
        return bool(ours.get("effective") == recorded["effective"])
    same_class = bool(ours.get("error") == recorded["error"])
    return same_class and str(ours["message"]).lower().startswith(recorded["message"].lower())


def _sizes(recording: dict[str, Any]) -> Iterator[Comparison]:
    tally = Tally("block and segment sizes")
    for table in recording["sizes"]:
        for row in table["rows"]:
            allocator = CachingAllocator(SimulatedDevice(GIB), table["settings"])
            address = allocator.malloc(row[0])
            segment = allocator.memory_map()[0]
            block = next(b for b in segment["blocks"] if b["address"] == address)
            ours = [row[0], block["size"], allocator.reserved_bytes, segment["segment_type"]]
            tally.add(ours, row, f"settings {table['settings']!r}")
    yield tally.result()
