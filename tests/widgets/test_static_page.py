"""The static page: every module once, pictures in their places, nothing from elsewhere."""

import json
import re
from html.parser import HTMLParser

import nbformat
import pytest

from labkit import cli
from labkit.widgets.static_page import STATE, VIEW, render_page

PICTURE = '<img class="lk-picture" alt="one" src="data:image/svg+xml;base64,PHN2Zy8+">'


def notebook_with_widgets():
    outputs = [
        nbformat.v4.new_output(
            "display_data",
            {VIEW: {"model_id": name}, "text/html": PICTURE, "text/plain": f"W({name})"},
        )
        for name in ("m1", "m2", "m1", "plain")
    ]
    esm = "export default { render() { /* </script> */ } };"
    state = {
        name: {"state": {"_esm": esm, "_css": ".a{}", "_view_name": "V", "n": 1},
               "buffers": [{"path": ["values"], "data": "AAE=", "encoding": "base64"}]}
        for name in ("m1", "m2")
    }  # fmt: skip
    state["plain"] = {"state": {"value": 3}}
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\n[next](folder/other.ipynb)"),
        nbformat.v4.new_code_cell("1 + 1", outputs=outputs),
    ]
    return nbformat.v4.new_notebook(cells=cells, metadata={"widgets": {STATE: {"state": state}}})


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.loaded, self.places, self.scripts, self.pictures = [], [], [], 0
        self.reading = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "link", "iframe", "img"):
            self.loaded += [given[name] for name in ("src", "href") if name in given]
        self.pictures += given.get("class") == "lk-picture"
        if "data-widget" in given:
            self.places.append(given["data-widget"])
        self.reading = given.get("id", "code") if tag == "script" else None

    def handle_data(self, data):
        if self.reading:
            self.scripts.append((self.reading, data))

    def handle_endtag(self, tag):
        self.reading = None


def test_state_and_modules_are_in_the_page_each_module_once():
    page = Page(render_page(notebook_with_widgets(), "t"))
    assert page.places == ["m1", "m2", "m1", "plain"]
    assert page.pictures == 4
    saved = json.loads(dict(page.scripts)["lk-widgets"])
    assert len(saved["sources"]) == len(saved["styles"]) == 1
    assert "</script>" in saved["sources"][0]  # escaped on the page, whole when read
    assert set(saved["models"]) == {"m1", "m2"}  # a plain ipywidget keeps its picture
    assert saved["models"]["m1"]["state"] == {"n": 1}
    assert saved["models"]["m1"]["buffers"][0]["path"] == ["values"]


def test_nothing_is_loaded_from_elsewhere():
    text = render_page(notebook_with_widgets(), "t")
    assert all(source.startswith("data:") for source in Page(text).loaded)
    assert set(re.findall(r"https?://[^\s\"'()\\<]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_links_between_notebooks_become_links_between_pages():
    assert 'href="folder/other.html"' in render_page(notebook_with_widgets(), "t")


def test_the_notebook_itself_is_left_as_it_was():
    notebook = notebook_with_widgets()
    before = nbformat.writes(notebook)
    render_page(notebook, "t")
    assert nbformat.writes(notebook) == before


def test_the_command_writes_pages_and_says_what_is_missing(tmp_path, capsys):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    nbformat.write(notebook_with_widgets(), tmp_path / "in" / "deep" / "one.ipynb")
    assert cli.main(["html", "--as-is", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "deep" / "one.html").exists()
    assert cli.main(["html", str(tmp_path / "none.ipynb"), str(tmp_path / "out")]) == 2
    assert "no notebook at" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["", "not json", '{"cells": 3}', '{"a":' * 50_000 + "1" + "}" * 50_000],
    ids=lambda content: content[:20],
)  # fmt: skip
def test_a_broken_notebook_is_named(tmp_path, capsys, content):
    (tmp_path / "bad.ipynb").write_text(content)
    assert cli.main(["html", "--as-is", str(tmp_path / "bad.ipynb"), str(tmp_path / "o.html")]) == 1
    assert "bad.ipynb" in capsys.readouterr().err


def test_half_a_surrogate_pair_spoils_no_page(tmp_path):
    cell = '{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "a\\ud800b"}'
    source = f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'
    (tmp_path / "odd.ipynb").write_text(source)
    page = tmp_path / "odd.html"
    assert cli.main(["html", "--as-is", str(tmp_path / "odd.ipynb"), str(page)]) == 0
    assert "a?b" in page.read_text(encoding="utf-8")
