import linecache

import pytest

from labkit.show.code import code, torch_file
from labkit.widgets.code.code_view import CodeView


def test_a_python_object_is_shown_with_its_own_line_numbers():
    view = code(CodeView.summary)
    assert view.panes[0]["title"] == "CodeView.summary"
    assert view.panes[0]["first_line"] > 50
    assert view.panes[0]["lines"][0].strip() == "def summary(self) -> str:"


@pytest.mark.parametrize(
    ("path", "symbol"),
    [
        ("c10/core/StorageImpl.h", "struct C10_API StorageImpl"),
        ("aten/src/ATen/Dispatch.h", "#define AT_DISPATCH_SWITCH"),
        ("torch/_tensor.py", "class Tensor"),
    ],
)
def test_installed_files_of_pytorch_are_found_by_their_path_in_its_tree(path, symbol):
    pane = torch_file(path, symbol, lines=5)
    assert symbol in pane["lines"][0]
    assert len(pane["lines"]) == 5
    assert repr(code(pane)) == f"CodeView({path})"


def test_sources_together_are_one_pane_that_runs_when_copied():
    def doubled():
        return 2 * LIMIT  # noqa: F821

    (pane,) = code("LIMIT = 3", doubled, "last = doubled()", together=True, title="all").panes
    ran: dict = {}
    exec("\n".join(pane["lines"]), ran)
    assert (ran["last"], pane["title"]) == (6, "all")


def test_what_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match=r"no_such_header\.h does not ship"):
        torch_file("c10/no_such_header.h")
    with pytest.raises(ValueError, match="'struct Nothing' does not occur"):
        torch_file("c10/core/StorageImpl.h", "struct Nothing")
    with pytest.raises(TypeError, match="not 3"):
        code(3)


def test_sources_meet_at_lines_found_by_a_piece_of_their_text():
    ours, theirs = ({"title": title, "text": f"{title}\nx = 1\n"} for title in ("ours", "theirs"))
    view = code(ours, theirs, meet=[("the same step", "x =", "= 1")])
    assert view.links == [[[0, 2, 2], [1, 2, 2]]]
    assert view.stations == [{"pane": 1, "lines": [2, 2], "text": "the same step"}]
    with pytest.raises(ValueError, match="no line of theirs holds 'y'"):
        code(ours, theirs, meet=[("nowhere", "x", "y")])


def test_a_meeting_at_a_whole_line_is_not_at_an_earlier_line_that_holds_it():
    theirs = {"title": "theirs", "text": "f() {\n  { 1 }\n}\n"}
    view = code(theirs, meet=[("it ends", "}")])
    assert view.stations == [{"pane": 0, "lines": [3, 3], "text": "it ends"}]


def of_a_cell(text, name):
    """What a class is whose text stands in a notebook's cell."""
    linecache.cache["<a cell>"] = (len(text), None, text.splitlines(keepends=True), "<a cell>")
    names = {"__name__": "__main__"}
    exec(compile(text, "<a cell>", "exec"), names)
    return names[name]


def test_a_class_of_a_notebook_is_shown_though_its_module_has_no_file():
    text = "x = 1\n\n\nclass Cell:\n    def method(self):\n        return 2\n"
    pane = code(of_a_cell(text, "Cell")).panes[0]
    assert pane["lines"][0] == "class Cell:"
    assert (pane["first_line"], len(pane["lines"])) == (4, 3)


@pytest.mark.parametrize(
    "text",
    [
        "class Plain:\n    size = 3\n",
        "import dataclasses\n\n\n@dataclasses.dataclass\nclass Plain:\n    size: int\n",
    ],
    ids=["no methods", "only methods that were made for it"],
)
def test_a_class_of_a_notebook_is_found_without_methods_of_its_own(text):
    lines = code(of_a_cell(text, "Plain")).panes[0]["lines"]
    assert lines == text.splitlines()[-len(lines) :]
    assert lines[0][0] in "@c" and "size" in lines[-1]


def test_a_class_whose_cell_is_gone_is_named():
    lost = of_a_cell("class Lost:\n    size = 3\n", "Lost")
    linecache.cache.pop("<a cell>")
    with pytest.raises(OSError, match="the source of Lost is not there any more"):
        code(lost)
