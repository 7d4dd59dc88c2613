"""The frozen course holds no line of a solution; a learner's folder is made once."""

import shutil

import pytest

from labkit.core import compile_cache
from labkit.course.chapters.editions import leaks
from labkit.course.notebook_form import notebook_paths, read_notebook
from labkit.workshop import folders
from labkit.workshop.folders import Workshop, prepare, provide, release
from labkit.workshop.roster import Person

SETTINGS = {"memory": 1 << 31}


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "own_users", lambda: False)
    monkeypatch.setattr(folders, "PARTS", ("labkit/workshop",))
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "worker_program", lambda: tmp_path / "no emulator here")
    (tmp_path / "no emulator here").write_bytes(b"")
    place = Workshop(tmp_path / "room")
    prepare(place, SETTINGS)
    return place


def test_no_chapter_of_a_release_shows_a_line_of_a_solution(tmp_path):
    written = release(tmp_path)
    assert len(written) == len(notebook_paths())
    for path, out in zip(notebook_paths(), written, strict=True):
        text = out.read_text(encoding="utf-8")
        assert leaks(read_notebook(path), text) == []
        assert '"solution"' not in text


def test_a_line_that_is_let_through_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "student", lambda notebook: notebook)
    with pytest.raises(ValueError, match="would show a line of its solution"):
        release(tmp_path)


def test_the_course_is_frozen(workshop):
    course = workshop.course
    kept = course / "labkit/workshop/folders.py"
    assert kept.exists()
    kept.write_text("as it was", encoding="utf-8")
    prepare(workshop, SETTINGS)
    assert kept.read_text(encoding="utf-8") == "as it was"


def test_a_start_that_was_stopped_halfway_begins_anew(workshop):
    workshop.course.rename(workshop.root / "course.new")
    (workshop.root / "course.new/stale").write_text("", encoding="utf-8")
    prepare(workshop, SETTINGS)
    assert not (workshop.course / "stale").exists()
    assert (workshop.course / "notebooks/0_start_here.ipynb").exists()


def test_a_learner_s_work_is_never_written_over(workshop):
    ana = Person("ana", 210_001, "", "")
    home = provide(workshop, ana)
    assert home.stat().st_mode & 0o777 == 0o700
    work = home / "notebooks/0_start_here.ipynb"
    assert work.exists()
    work.write_text("hers", encoding="utf-8")
    assert provide(workshop, ana) == home
    assert work.read_text(encoding="utf-8") == "hers"


def test_what_the_teacher_has_compiled_is_handed_out(workshop, monkeypatch):
    entry = compile_cache.kept("one", ["key"], lambda target: target.write_bytes(b"compiled"))
    shutil.rmtree(workshop.compiled)
    prepare(workshop, SETTINGS)
    home = provide(workshop, Person("ben", 210_002, "", ""))
    monkeypatch.setenv("LABKIT_CACHE", str(home / ".cache/labkit"))

    def not_again(target):
        raise AssertionError("compiled again")

    mine = compile_cache.kept("one", ["key"], not_again)
    assert mine.read_bytes() == b"compiled"
    assert mine != entry


def test_the_folder_of_the_hub_is_its_owner_s(workshop):
    assert workshop.hub.stat().st_mode & 0o077 == 0
