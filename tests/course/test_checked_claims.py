"""The folded table: every row decided by the run, and none against its verdict."""

import pytest

from labkit import course
from labkit.course.claims import SUPPORTS, ClaimFailed, all_claims
from labkit.course.notebook_form import natural


def first(verdict):
    return next(i for i, e in all_claims().items() if e["verdict"] == verdict)


HOLDS, WRONG, OPINION = first("holds"), first("wrong"), first("unverifiable")


def test_every_claim_can_stand_in_a_table():
    verdicts = {claim_id: entry["verdict"] for claim_id, entry in all_claims().items()}
    decided = {i: SUPPORTS[verdict] for i, verdict in verdicts.items() if verdict in SUPPORTS}
    rest = {i: "a source with a date" for i in all_claims().keys() - decided.keys()}
    table = course.checked(decided, settles=rest)
    assert [row["id"] for row in table.rows] == sorted(all_claims(), key=natural)
    assert "Statements of “000 " in table.title
    assert f": 243 of {len(decided)} hold; {len(rest)} not checkable here" in table.title


def test_a_table_never_contradicts_the_run():
    with pytest.raises(ClaimFailed, match="does not hold"):
        course.checked({HOLDS: False})
    with pytest.raises(ClaimFailed, match="found: 3"):
        course.checked({WRONG: (True, {"found": 3})})
    with pytest.raises(ClaimFailed, match="a run cannot settle it"):
        course.checked({OPINION: True})


def test_rows_say_what_was_found_what_is_better_and_when_it_was_true():
    table = course.checked(
        {WRONG: (False, {"<b>": 7, "at": object()}), HOLDS: True},
        settles={OPINION: "a count of papers"},
        dated={WRONG: "true until 2019"},
    )
    rows = {row["id"]: row for row in table.rows}
    assert rows[WRONG]["better"] == all_claims()[WRONG]["correction"]
    assert rows[WRONG]["found"].startswith("it does not hold; <b>: 7; at: <object")
    assert "0x0>" in rows[WRONG]["found"], "no addresses"
    assert rows[HOLDS]["found"] == "it holds"
    assert rows[OPINION]["found"] == "not checkable here; to settle it: a count of papers"
    (open_row,) = course.checked({}, settles={HOLDS: "a count of papers"}).rows
    assert open_row["verdict"] == "unverifiable", "whatever is on record"
    page = table._repr_html_()
    assert page.startswith("<details><summary>") and "<b>: 7" not in page
    assert "true until 2019" in page and all(i in page for i in (WRONG, HOLDS, OPINION))
    assert "open" not in page.partition(">")[0], "folded"


def test_what_is_no_table_is_refused():
    with pytest.raises(KeyError, match="D4-0-a"):
        course.checked({"D4-99-z": True})
    for value in (1, None, "yes", (1, "evidence"), [True]):
        with pytest.raises(TypeError, match="True or False"):
            course.checked({WRONG: value})
    with pytest.raises(ValueError, match="said to be not checkable"):
        course.checked({WRONG: False}, settles={WRONG: "more"})
    with pytest.raises(ValueError, match="not in the table"):
        course.checked({WRONG: False}, dated={HOLDS: "2020"})
