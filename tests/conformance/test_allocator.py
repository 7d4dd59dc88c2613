"""The allocator layer of `labkit conformance`: bad folders are refused, a wrong one is found."""

import gzip
import json
import shutil

import pytest

from labkit.cli import main
from labkit.conformance import allocator
from labkit.conformance.report import InputError
from tests.memory.mutation import FIXTURES


@pytest.mark.full
def test_everything_is_equal_at_another_seed_than_0():
    for comparison in allocator.compare(11, "small"):
        assert comparison.passed, comparison


def test_a_folder_with_another_recording(tmp_path, capsys):
    """Nothing is special about the shipped ones: a changed expectation is found."""
    data = json.loads(gzip.decompress((FIXTURES / "tutorial.json.gz").read_bytes()))
    data["programs"] = data["programs"][:3]
    data["programs"][2]["expect"][0]["addr"] += 512
    with gzip.open(tmp_path / "mine.json.gz", "wt") as file:
        json.dump(data, file)
    assert main(["conformance", "allocator", "--fixtures", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "tutorial, 3 of 3 programs" in printed
    assert "program 'split_remainder', operation 0 ['alloc', 'a', 1000, 0]" in printed


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="there are no recordings"):
        main(["conformance", "allocator", "--fixtures", str(tmp_path)])


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"[1, 2"), gzip.compress(b"{}")],
    ids=["not gzip", "not JSON", "no recording"],  # gzip's header holds the time of day
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, content):
    (tmp_path / "bad.json.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.json\.gz"):
        list(allocator.compare(0, "small", str(tmp_path)))


def test_a_broken_snapshot_is_refused(tmp_path):
    shutil.copy(FIXTURES / "tutorial.json.gz", tmp_path)
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "cut.pickle.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(InputError):
        list(allocator.compare(0, "small", str(tmp_path)))


# --- another system than labkit's


def test_a_system_that_raises_is_red_and_names_the_program(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from labkit.memory import caching_allocator\n"
        "class CachingAllocator(caching_allocator.CachingAllocator):\n"
        "    def _best_fit(self, params):\n"
        "        return 1 // 0\n"
    )
    assert main(["conformance", "allocator", "--system", str(file)]) == 1
    printed = capsys.readouterr().out
    assert "raises ZeroDivisionError" in printed
    assert "settings strings" not in printed  # the parser is no part of it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "defines no CachingAllocator"),
        ("1 / 0", "does not run: ZeroDivisionError"),
        (None, "does not run: FileNotFoundError"),
    ],
)
def test_a_file_without_a_system_is_refused(tmp_path, text, said):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit, match=said):
        main(["conformance", "allocator", "--system", str(file)])


def test_a_layer_that_takes_no_system_says_who_does(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("")
    with pytest.raises(SystemExit, match=r"a system can be given to .*allocator"):
        main(["conformance", "promotion", "--system", str(file)])
