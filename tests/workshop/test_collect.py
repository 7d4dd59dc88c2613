"""What is collected is each learner's own work."""

import os

import pytest

from labkit import cli
from labkit.workshop.collect import collect
from labkit.workshop.folders import Workshop
from labkit.workshop.roster import admit

CHAPTERS = ("0_start_here", "2_core_code/3_strides")


@pytest.fixture
def workshop(tmp_path):
    place = Workshop(tmp_path / "room")
    place.hub.mkdir(parents=True)
    admit(place.roster, ["ana", "mallory"])
    for owner in (place.course, place.of("ana"), place.of("mallory")):
        for chapter in CHAPTERS:
            file = owner / "notebooks" / f"{chapter}.ipynb"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"by {owner.name}", encoding="utf-8")
    return place


def test_each_learner_s_notebooks_are_copied(workshop, tmp_path, capsys):
    out = tmp_path / "out"
    asked = ["workshop", "collect", str(out), "--folder", str(workshop.root)]
    assert cli.main(asked) == 0
    assert f"{out / 'ana'}  2 notebooks" in capsys.readouterr().out
    copies = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*.ipynb")}
    assert copies == {f"{n}/{c}.ipynb": f"by {n}" for n in ("ana", "mallory") for c in CHAPTERS}


@pytest.mark.parametrize("way", ["the folder", "the file", "a hard link", "a pipe"])
def test_another_s_work_is_not_collected_as_one_s_own(workshop, tmp_path, way):
    hers, mine = (workshop.of(name) / "notebooks" for name in ("ana", "mallory"))
    file = mine / "2_core_code/3_strides.ipynb"
    file.unlink()
    if way == "the folder":
        file.parent.rmdir()
        file.parent.symlink_to(hers / "2_core_code")
    elif way == "the file":
        file.symlink_to(hers / "2_core_code/3_strides.ipynb")
    elif way == "a hard link":
        file.hardlink_to(hers / "2_core_code/3_strides.ipynb")
    else:
        os.mkfifo(file)
    found = collect(workshop, tmp_path / "out")
    assert found["mallory"] == ["0_start_here"]
    assert not (tmp_path / "out/mallory/2_core_code").exists()


def test_a_folder_that_is_no_workshop_s_is_refused(tmp_path, capsys):
    asked = ["workshop", "collect", str(tmp_path / "out"), "--folder", str(tmp_path)]
    assert cli.main(asked) == 1
    assert "is no workshop's folder" in capsys.readouterr().err


def test_release_writes_the_notebooks_of_the_course(tmp_path, capsys):
    assert cli.main(["workshop", "release", str(tmp_path)]) == 0
    assert f"{tmp_path / 'notebooks' / '0_start_here.ipynb'}\n" in capsys.readouterr().out
