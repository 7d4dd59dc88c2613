"""Code side by side in JupyterLab: walk stations, light partners, fold, filter marks."""

CELLS = [
    '''from labkit.widgets.code.code_view import CodeView
w = CodeView(
    [{"title": "labkit", "language": "python", "text": """class Storage:
    # untyped bytes
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.data_ptr = allocate(nbytes)
        self.name = "storage <b>not html</b>"
"""},
     {"title": "c10/core/StorageImpl.h", "language": "cpp", "first_line": 40, "text":
      "struct StorageImpl {\\n  // bytes, not elements\\n  size_t nbytes = 0;\\n"
      "  DataPtr data_ptr;\\n};"}],
    links=[[(0, 4, 4), (1, 42, 42)], [(0, 5, 5), (1, 43, 43)]],
    marks=[{"pane": 1, "line": 42, "severity": "note", "text": "the 2011 struct counted elements"}],
    stations=[{"pane": 0, "lines": (3, 5), "text": "who owns the bytes"},
              {"pane": 1, "lines": (42, 43), "text": "the same two fields"}],
    title="two storages")
w'''
]


def test_code_view(lab):
    lab.open(CELLS)
    view = lab.widget()
    lab.wait_drawn(view)
    view.locator("[data-line='4'] .lk-code-text").first.hover()
    lab.wait_for("() => document.querySelector('.lk').dataset.linked === '2'")
    view.locator("input[type=range]").focus()
    lab.press("ArrowRight")
    lab.wait_until("w.frame", 1)
    assert view.locator(".lk-station").count() == 2
    assert view.get_by_text("<b>not html</b>").is_visible()
    lab.screenshot("code_view", of=view)
    view.get_by_role("button", name="show or hide note marks").click()
    assert not view.get_by_text("note: the 2011 struct").is_visible()
    view.get_by_role("button", name="hide lines that no link").click()
    lab.execute("w.frame = 0")
    lab.wait_for("() => document.querySelectorAll('.lk-station').length === 3")
