"""CUDA's error numbers, from the list that programs are compiled with."""

import functools
import re

from labkit.cuda.emulator.build import INCLUDE


@functools.cache
def numbers() -> dict[str, int]:
    """Name -> number of every error."""
    text = (INCLUDE / "cuemu" / "host" / "errors.inc").read_text(encoding="utf-8")
    return {
        name: int(number) for name, number in re.findall(r"^CUEMU_ERROR\((\w+), (\d+),", text, re.M)
    }
