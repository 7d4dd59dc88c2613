"""Where the room goes on: told once, below the next cell, to whoever is not there."""

import json
from types import SimpleNamespace

import pytest

from labkit.workshop import presence
from labkit.workshop.calls import CALLED, Call, call, last_call, told
from labkit.workshop.presence import WHERE

HERE, THERE = ("2_core_code/3_strides", "A view"), ("0_start_here", "A race")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Runs a cell of the strides chapter, below its heading "A view"; what it was told."""
    folder = tmp_path / "notebooks" / "2_core_code"
    folder.mkdir(parents=True)
    cells = [
        {"id": "head", "cell_type": "markdown", "source": "## A view"},
        {"id": "code", "cell_type": "code", "source": "1 + 1"},
    ]
    (folder / "3_strides.ipynb").write_text(json.dumps({"cells": cells}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "3_strides.ipynb"))
    monkeypatch.setenv(WHERE, str(tmp_path / "room.json"))
    monkeypatch.setenv(CALLED, str(tmp_path / "call.json"))
    shown, registered = [], []
    monkeypatch.setattr(presence, "display", lambda what: shown.append(what.data))
    parent = {"metadata": {"cellId": "code"}}
    shell = SimpleNamespace(
        events=SimpleNamespace(register=lambda name, do: registered.append(do)),
        kernel=SimpleNamespace(get_parent=lambda channel: parent),
    )
    presence.load_ipython_extension(shell)
    result = SimpleNamespace(
        info=SimpleNamespace(raw_cell="1 + 1"), error_before_exec=None, error_in_exec=None
    )

    def run():
        shown.clear()
        registered[0](result)
        return list(shown)

    return run


def test_a_call_is_told_once(kernel, tmp_path):
    assert kernel() == []
    call(tmp_path / "call.json", *THERE)
    assert kernel() == ["**The room goes on at** [A race](<../0_start_here.ipynb#A-race>)."]
    assert kernel() == []
    call(tmp_path / "call.json", *THERE)
    assert len(kernel()) == 1


def test_who_is_there_is_left_alone(kernel, tmp_path):
    call(tmp_path / "call.json", *HERE)
    assert kernel() == []


def test_a_file_that_is_no_call_is_none(kernel, tmp_path):
    for text in ("", "[]", "{}", '{"chapter": "x"}', "\0"):
        (tmp_path / "call.json").write_text(text)
        assert last_call(tmp_path / "call.json") is None
        assert kernel() == []
    assert json.loads((tmp_path / "room.json").read_text())["section"] == "A view"


def test_a_link_leads_from_any_folder_to_the_section():
    called = Call("2_core_code/3_strides", "How does `expand` repeat?", 1.0)
    assert "(<2_core_code/3_strides.ipynb#How-does-expand-repeat?>)" in told(called, "a_chapter")
    assert "(<../2_core_code/3_strides.ipynb#" in told(called, "1_fundamentals/3_tensors")
