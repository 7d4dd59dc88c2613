"""Every source a lesson compiles has a recording, and the recordings are what NVRTC makes today."""

import ast
import json
import re
from pathlib import Path

import pytest

from labkit import show
from labkit.course.documents import sketches
from labkit.cuda import inspect
from labkit.cuda.errors import CompileError, NvrtcMissingError
from labkit.cuda.inspect import nvrtc, recorded

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
needs_nvrtc = pytest.mark.skipif(not inspect.is_available(), reason="NVRTC is not installed")


def cells():
    for path in sorted(NOTEBOOKS.rglob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])


def literal(name):
    """The kernel that a notebook's cell assigns to a name."""
    for source in cells():
        if re.search(rf"^{name} = r?\"", source, re.MULTILINE) and "void add(" in source:
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.Assign) and statement.targets[0].id == name:
                    return ast.literal_eval(statement.value)
    raise LookupError(name)


SHOWN = {
    'ADD, at="line 4"': lambda: literal("ADD"),
    "sketch": lambda: "typedef long long int64_t;" + sketches.SKETCHES["conv2d_kernel"],
}


@pytest.fixture
def no_compiler(monkeypatch):
    def missing():
        raise NvrtcMissingError("NVRTC is not installed")

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)


def test_no_cell_of_a_lesson_says_that_nothing_was_compiled(no_compiler):
    asked = {one for source in cells() for one in re.findall(r"show\.compile\((.+)\)", source)}
    assert asked == set(SHOWN)
    for source in SHOWN.values():
        view = show.compile(source())
        assert "not compiled here" not in view.title
        assert view.stations or "refused for sm_90: 3 errors" in view.title


def test_a_recording_is_shown_as_what_it_is(no_compiler):
    view = show.compile(literal("ADD"), at="line 4")
    assert view.title.endswith(", recorded")
    assert [pane["title"] for pane in view.panes] == [
        "kernel.cu",
        "PTX for sm_90",
        "SASS for sm_90",
    ]
    assert any("FADD" in line for line in view.panes[2]["lines"])
    assert view.stations[view.frame]["text"].startswith("line 4: ")
    assert "12 registers" in view.marks[0]["text"]


def test_another_source_arch_or_option_has_none(no_compiler):
    add = literal("ADD")
    assert recorded.find(add, "sm_90", (), ())
    for other in (
        recorded.find(f"{add} ", "sm_90", (), ()), recorded.find(add, "sm_80", (), ()),
        recorded.find(add, "sm_90", (), ("-DX",)), recorded.find(add, "sm_90", ("f<int>",), ()),
    ):  # fmt: skip
        assert other is None
    with pytest.raises(CompileError, match="identifier"):
        recorded.find(SHOWN["sketch"](), "sm_90", (), ())


@needs_nvrtc
@pytest.mark.parametrize("place", sorted(recorded.FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_the_recordings_are_current(place):
    held = json.loads(place.read_text(encoding="utf-8"))
    now = json.loads(recorded.record(held["source"], held["path"]))
    assert recorded.place_of(held["source"], recorded.ARCH) == place
    if now.get("compiler") != held.get("compiler"):
        pytest.skip(f"recorded with NVRTC {held['compiler']}, this one is {now['compiler']}")
    assert now == held
