"""Parts survive, or are refused with a reason: edits, damage, a full disk, two notebooks."""

import errno
import multiprocessing
import os

import pytest

from labkit.course import progress_file
from labkit.course.exercises import find
from labkit.course.progress_file import record_pass, state_of
from labkit.course.your_machine import kept_parts
from labkit.course.your_machine.inventory import inventory, keep_for_seat
from labkit.course.your_machine.kept_parts import forget, keep, kept

ID = "broadcasting.loop_strides"
EXERCISE = find(ID)


@pytest.fixture(autouse=True)
def parts(monkeypatch, tmp_path):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setattr(kept_parts, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "a b" / "progress.json"))
    return tmp_path / "a b" / "parts"


def loop_strides(sizes, strides, shape):
    new = len(shape) - len(sizes)
    stretched = zip(sizes, strides, shape[new:], strict=True)
    return (0,) * new + tuple(0 if a == 1 and b != 1 else s for a, s, b in stretched)


def imports_torch(sizes, strides, shape):
    import torch

    return torch.empty_strided(sizes, strides).expand(shape).stride()


def sitting():
    return next(one for one in inventory() if one.seat.exercise == ID)


def test_a_part_is_a_readable_file_that_can_be_asked(parts):
    keep(EXERCISE, loop_strides)
    text = (parts / f"{ID}.py").read_text(encoding="utf-8")
    assert "# chapter: 1_fundamentals/5_broadcasting" in text and "def loop_strides(" in text
    assert kept(ID).load()((3, 1), (1, 1), (4, 3, 2)) == (0, 1, 0)
    assert [file.name for file in parts.iterdir()] == [f"{ID}.py"]


def test_passing_the_check_keeps_the_part_and_says_so():
    from labkit import course

    passed = course.check(ID, loop_strides)
    assert "has 1 of" in repr(passed) and sitting().answer is not None


def test_without_a_file_it_lasts_as_long_as_the_kernel(monkeypatch, parts):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    keep(EXERCISE, loop_strides)
    assert kept(ID).file is None and not parts.exists()
    assert sitting().answer((3,), (1,), (2, 3)) == (0, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("(0,)", "(1,)"), "edited or damaged"),
        (lambda text: text[:-20], "edited or damaged"),
        (lambda text: text[5:], "first lines"),
        (lambda text: text.replace(ID, "strides.needed"), "it is the part of strides.needed"),
        (lambda text: "", "first lines"),
    ],
)
def test_an_edited_or_damaged_file_is_refused_and_the_exercise_open_again(parts, change, why):
    keep(EXERCISE, loop_strides)
    record_pass(ID)
    file = parts / f"{ID}.py"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    assert why in sitting().refused and sitting().answer is None
    assert state_of(ID).status == "not tried"
    assert keep_for_seat(EXERCISE, loop_strides).startswith("Your machine now has 1 of")


def test_bytes_that_are_no_text_are_refused(parts):
    keep(EXERCISE, loop_strides)
    (parts / f"{ID}.py").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in sitting().refused


def test_an_import_that_the_exercise_forbids_is_refused(parts):
    assert "imports torch" in keep_for_seat(EXERCISE, imports_torch)
    assert not parts.exists()
    planted = kept_parts.with_head(
        kept_parts.Part(ID, "x", "2026-01-01", "import labkit.core\nanswer = labkit.core\n")
    )
    parts.mkdir(parents=True)
    (parts / f"{ID}.py").write_text(planted, encoding="utf-8")
    assert "imports labkit.core" in sitting().refused


def test_a_full_disk_leaves_the_old_part_or_memory(parts, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept_parts.os, "fsync", full)
    keep(EXERCISE, loop_strides)
    assert kept(ID).file is None and [*parts.iterdir()] == []
    monkeypatch.undo()


def test_a_part_of_a_moved_checkout_or_another_version_still_sits(parts):
    keep(EXERCISE, loop_strides)
    file = parts / f"{ID}.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("# labkit: ", "# labkit: 99."), encoding="utf-8")
    assert sitting().answer is not None


def _keep_often(times):
    for _ in range(times):
        keep(EXERCISE, loop_strides)
        kept(ID).load()


def test_two_notebooks_at_once(parts):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_keep_often, args=(30,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert [file.name for file in parts.iterdir()] == [f"{ID}.py"] and sitting().answer


def test_forgetting_one_or_all(parts):
    keep(EXERCISE, loop_strides)
    forget("strides.needed")
    assert kept(ID)
    forget(None)
    assert kept(ID) is None


def test_what_cannot_be_written_down_is_still_passed():
    outer = loop_strides
    said = keep_for_seat(EXERCISE, lambda *inputs: outer(*inputs))
    assert said.startswith("It is no part of your machine") and kept(ID) is None
    assert keep_for_seat(find("tensors.kind"), loop_strides) == ""
