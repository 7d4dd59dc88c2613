"""JavaScript is laid out as prettier does it at 100 columns; what that means for a line is here."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "labkit").rglob("*.js"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_are_short_and_indented_by_pairs_of_blanks(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n")
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}: {line!r}"
        assert len(line) <= 100, where
        assert "\t" not in line and line == line.rstrip(), where
        blanks = len(line) - len(line.lstrip())
        assert blanks % 2 == 0 or line.lstrip().startswith("*"), where


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_one_statement_stands_on_a_line(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = line.split("//")[0].strip()
        several = (
            "; " in code and not code.startswith("for (") and '"' not in code and "`" not in code
        )
        assert not several, f"{path.relative_to(ROOT)}:{number}: {line!r}"
