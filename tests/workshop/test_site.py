"""The course as pages: links lead somewhere, nothing is asked elsewhere, the search finds."""

import json

import nbformat
import pytest

from labkit.course.notebook_form import ROOT, notebook_paths, read_notebook
from labkit.widgets.static_page import STATE, VIEW
from labkit.workshop.site import build
from labkit.workshop.site.index import index_page, search_entries, search_script
from labkit.workshop.site.links import Links, broken_links
from labkit.workshop.site.one_step import step_page

CHAPTER = "2_core_code/3_strides"


def executed(path, timeout_s):
    """A chapter as though it had been run, with one widget: no cell of it is."""
    notebook = nbformat.read(path, as_version=4)
    state = {
        "_anywidget_id": "labkit.StrideView",
        "_esm": "export default { render({ el }) { el.textContent = 'drawn'; } }",
    }
    view = {VIEW: {"model_id": "one"}, "text/plain": "StrideView"}
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("display_data", view)]
    notebook.metadata["widgets"] = {STATE: {"state": {"one": {"state": state}}}}
    return notebook


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(build, "run_notebook", executed)
        patched.setattr(build, "step_page", lambda: "<p>one step</p>")
        patched.setenv("LABKIT_PROGRESS", "off")
        build.build(out, [p for p in notebook_paths() if CHAPTER in p.as_posix()])
    return out


def test_every_link_leads_somewhere(site):
    assert (site / f"{CHAPTER}.html").exists()
    assert broken_links(site) == []


def test_each_solution_is_folded_below_its_exercise(site):
    page = (site / f"{CHAPTER}.html").read_text(encoding="utf-8")
    stubs = page.split("celltag_exercise")[1:]
    assert len(stubs) == 5
    assert all("<details><summary>A solution</summary>" in each for each in stubs)
    assert "<details open" not in page


def test_each_kind_of_widget_has_a_page(site):
    assert [path.name for path in (site / "widgets").iterdir()] == ["StrideView.html"]
    page = (site / "widgets/StrideView.html").read_text(encoding="utf-8")
    assert page.count('data-widget="one"') == 1


def test_a_widget_that_belongs_to_its_chapter_has_no_page():
    notebook = executed(ROOT / "notebooks" / f"{CHAPTER}.ipynb", 1)
    states = notebook.metadata["widgets"][STATE]["state"]
    assert [kind for kind, _ in build.single_widgets(notebook)] == ["StrideView"]
    for kind in build.LESSON:
        states["one"]["state"]["_anywidget_id"] = f"labkit.{kind}"
        assert list(build.single_widgets(notebook)) == []


def test_the_first_page_shows_a_step_that_is_walked():
    page = step_page()
    assert page.count("data-widget=") == 1
    assert "loss.backward()" in page


def test_the_index_leads_to_every_chapter_that_is_there(site):
    names = [CHAPTER, "0_start_here"]
    page = index_page(names, [])
    assert all(f'href="{name}.html"' in page for name in names)
    assert "4_vision_low_level" not in page


def test_code_in_a_title_is_code():
    page = index_page(["2_core_code/2_tensor_and_storage"], [])
    assert "<code>del a</code> ran. Are the bytes free?" in page


def test_the_search_holds_sections_and_no_hidden_cell():
    notebook = read_notebook(ROOT / "notebooks" / f"{CHAPTER}.ipynb")
    entries = search_entries(CHAPTER, notebook)
    assert any(entry["section"] == "Where does an element lie?" for entry in entries)
    script = search_script(entries)
    assert json.loads(script.removeprefix("const ENTRIES = ").rstrip(";\n"))
    assert "course.checked" not in script
    assert "92 elements lie before it" not in script


def test_what_is_found_leads_to_its_heading(site):
    notebook = read_notebook(ROOT / "notebooks" / f"{CHAPTER}.ipynb")
    names = Links((site / f"{CHAPTER}.html").read_text(encoding="utf-8")).names
    anchors = [e["page"].partition("#")[2] for e in search_entries(CHAPTER, notebook)[1:]]
    assert len(anchors) > 10
    assert [anchor for anchor in anchors if anchor not in names] == []


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ('<a href="gone.html">x</a>', "links to gone.html, which is not there"),
        ('<a href="#gone">x</a>', "links to #gone, where nothing has that name"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<img src="//cdn.example/x.png">', "loads //cdn.example/x.png"),
        ('<link href="gone.css">', "loads gone.css, which is not there"),
    ],
)
def test_a_link_into_nothing_and_a_request_elsewhere_are_found(tmp_path, held, said):
    (tmp_path / "page.html").write_text(
        f'<p id="here"><a href="#here">y</a><a href="https://pytorch.org">z</a>{held}</p>'
    )
    assert broken_links(tmp_path) == [f"page.html {said}"]


@pytest.mark.parametrize("name", ["20-%C2%B5s", "20-µs"])
def test_a_name_is_found_as_it_is_written_and_decoded(tmp_path, name):
    """As browsers do; nbconvert writes the names of headings encoded."""
    page = f'<h1 id="{name}">x</h1><a href="#20-%C2%B5s">y</a>'
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    assert broken_links(tmp_path) == []


def test_a_dev_container_sets_up_with_the_lab_s_own_command():
    text = (ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8")
    assert json.loads(text)["postCreateCommand"] == "python3 lab.py setup"
