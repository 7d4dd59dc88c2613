"""Names and passwords of a room."""

import json

import pytest

from labkit.workshop.roster import TEACHER, admit, names_from, read_roster, seats


def test_names_become_users_names():
    assert names_from("Ana\n\n  Björn Åse \nD'Arcy 2\n") == ["ana", "bjorn-ase", "d-arcy-2"]
    assert names_from("Åse Weiß\n") == ["ase-weiss"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no name"),
        ("42\n", "'42'"),
        ("Teacher\n", "'Teacher'"),
        ("Ana\nana\n", "twice"),
    ],
)
def test_what_is_no_name_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        names_from(text)


def test_a_password_is_told_once_and_only_its_hash_is_kept(tmp_path):
    file = tmp_path / "roster.json"
    made = admit(file, ["ana", "ben"])
    assert list(made) == [TEACHER, "ana", "ben"]
    people = read_roster(file)
    assert people["ana"].knows(made["ana"])
    assert not people["ana"].knows(made["ben"])
    assert not any(password in file.read_text(encoding="utf-8") for password in made.values())
    assert file.stat().st_mode & 0o077 == 0
    assert len({person.user for person in people.values()}) == 3


def test_who_comes_later_is_added_and_the_others_keep_what_they_have(tmp_path):
    file = tmp_path / "roster.json"
    before = admit(file, ["ana"])
    assert list(admit(file, ["ana", "carl"])) == ["carl"]
    people = read_roster(file)
    assert people["ana"].knows(before["ana"])
    anew = admit(file, ["ana"], anew=True)
    assert read_roster(file)["ana"].knows(anew["ana"])
    assert not read_roster(file)["ana"].knows(before["ana"])
    assert read_roster(file)["ana"].user == people["ana"].user
    assert json.loads(file.read_text(encoding="utf-8"))


def test_seats_are_names():
    assert names_from("\n".join(seats())) == seats()
