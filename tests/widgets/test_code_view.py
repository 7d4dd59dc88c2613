import pytest

from labkit.widgets.code.code_view import CodeView

PANES = [
    {"title": "a.py", "text": "x = 1\ny = x + 1\n", "language": "python"},
    {"title": "b.h", "text": "int x;\nint y;", "language": "cpp", "first_line": 10},
]


def test_text_form_and_picture_follow_the_station():
    view = CodeView(PANES, stations=[{"pane": 1, "lines": (11, 11), "text": "here"}])
    assert repr(view) == "CodeView(a.py, b.h; 1 stations)"
    assert all(f">{text}</text>" in view.svg() for text in ("b.h", "here", "int y;", "11"))
    assert ">x = 1</text>" in CodeView(PANES).svg()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"links": [[(0, 1, 3)]]}, r"lines 1 to 3 are not in pane 'a.py' \(1\.\.2\)"),
        ({"links": [[(1, 1, 1)]]}, r"not in pane 'b.h' \(10\.\.11\)"),
        ({"stations": [{"pane": 2, "lines": (1, 1), "text": ""}]}, "pane 2 does not exist"),
        ({"marks": [{"pane": 0, "line": 1, "severity": "bad", "text": ""}]}, "severity 'bad'"),
    ],
)
def test_bad_input_is_named(more, message):
    with pytest.raises(ValueError, match=message):
        CodeView(PANES, **more)
