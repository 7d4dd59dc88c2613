import pytest

from labkit.show.code import code, torch_file
from labkit.widgets.code_view import CodeView


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


def test_what_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match=r"no_such_header\.h does not ship"):
        torch_file("c10/no_such_header.h")
    with pytest.raises(ValueError, match="'struct Nothing' does not occur"):
        torch_file("c10/core/StorageImpl.h", "struct Nothing")
    with pytest.raises(TypeError, match="not 3"):
        code(3)
