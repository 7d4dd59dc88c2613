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
