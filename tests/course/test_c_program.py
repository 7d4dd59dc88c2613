"""A learner's C program answers the same on every processor."""

import platform

import pytest

from labkit.core.host_compiler import compiler
from labkit.course.benches import c_program

SOURCE = """
#include <stdio.h>
int main(int count, char **words) {
    char c = -count;
    double a = 1 + count * 0x1p-30, rest = -(1 + count * 0x1p-29);
    printf("%d %d", c, a * a + rest == 0);
}
"""


@pytest.mark.parametrize("flags", ["", "-funsigned-char", "-ffp-contract=fast"])
def test_another_processor_s_compiler_gives_the_same(flags, tmp_path, monkeypatch):
    """On arm64 a compiler takes char for unsigned, and fuses a product with a sum."""
    if "contract" in flags and platform.machine() == "x86_64":
        flags += " -mfma -fexpensive-optimizations"
    other = tmp_path / "cc"
    other.write_text(f'#!/bin/sh\nexec {compiler("c")} {flags} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CC", str(other))
    monkeypatch.setattr(c_program, "_folders", {})
    assert compiler("c") == str(other)
    found = c_program.run(c_program.build({"main.c": SOURCE}), b"")
    assert (found.output, found.status) == (b"-1 1", 0)
