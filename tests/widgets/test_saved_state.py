"""What a saved notebook brings along: the lab's widgets as data, nobody else's code."""

import asyncio
import copy
import json

import nbformat
import pytest

from labkit import show
from labkit.widgets.base import LabWidget
from labkit.widgets.contents import LabContentsManager
from labkit.widgets.saved_state import (
    NOTICE,
    _is_written,
    _own_widgets,
    _subclasses,
    drop_notice,
    keep_own_code,
)
from labkit.widgets.static_page import STATE
from labkit.widgets.strides.stride_view import StrideView

EVIL = "document.title = 'ran'; export default {}"
OWN = "labkit.StrideView"


def any_model(**state):
    return {
        "model_module": "anywidget",
        "model_module_version": "~0.11.*",
        "model_name": "AnyModel",
        "state": {"_model_module": "anywidget", "_view_module": "anywidget", **state},
    }


def plain(name, **state):
    module = {"_model_module": "@jupyter-widgets/controls", "_view_module": state.pop("view", None)}
    return {
        "model_module": "@jupyter-widgets/controls",
        "model_module_version": "2.0.0",
        "model_name": name,
        "state": {**module, **state},
    }


def notebook(widgets):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    made.metadata["widgets"] = widgets
    return made


def with_models(**models):
    return notebook({STATE: {"version_major": 2, "version_minor": 0, "state": models}})


def models_of(made):
    return made.metadata.get("widgets", {}).get(STATE, {}).get("state", {})


FOREIGN = {
    "a stranger's": any_model(_esm=EVIL, _anywidget_id="stranger.Widget"),
    "without a class": any_model(_esm=EVIL),
    "with a class that is no text": any_model(_esm=EVIL, _anywidget_id=[OWN]),
    "in a buffer": any_model(_anywidget_id="x") | {"buffers": [{"path": ["_esm"], "data": "eA=="}]},
    "of another module": plain("HTMLModel") | {"model_module": "somewhere-else"},
    "of another model of anywidget": any_model(_esm=EVIL, _anywidget_id=OWN) | {"model_name": "X"},
    "with a foreign view": plain("HTMLModel", view="anywidget", _esm=EVIL),
    "with a foreign model": plain("HTMLModel", _model_module="anywidget", _esm=EVIL),
    "no model": "text",
    "no state": {"model_module": "@jupyter-widgets/controls", "state": None},
}


@pytest.mark.parametrize("model", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_widget_is_removed_and_the_page_says_so(model):
    made = with_models(it=model, text=plain("HTMLModel", value="kept"))
    assert keep_own_code(made) == 1
    assert list(models_of(made)) == ["text"]
    assert "a saved widget with code" in made.cells[0].source
    assert "export default" not in json.dumps(made)
    nbformat.validate(made)


def test_the_labs_own_widget_is_kept_under_its_source_of_today():
    made = with_models(
        own=any_model(_esm=EVIL, _css="body {}", _anywidget_id=OWN, _view_name="Other", frame=3)
        | {
            "buffers": [
                {"path": ["storages", 0], "data": "eA=="},
                {"path": ["_esm"], "data": "eA=="},
                {"path": ["__proto__", "x"], "data": "eA=="},
                {"path": ["texts", "__proto__", "x"], "data": "eA=="},
                {"path": [], "data": "eA=="},
                {"path": [["texts"]], "data": "eA=="},
                "no buffer",
            ]
        }
    )
    assert keep_own_code(made) == 0
    own = models_of(made)["own"]
    assert own["state"]["frame"] == 3
    assert (own["state"]["_esm"], own["state"]["_css"]) == (StrideView._esm, StrideView._css)
    assert own["state"]["_view_name"] == "AnyView"
    assert [buffer["path"] for buffer in own["buffers"]] == [["storages", 0]]
    assert len(made.cells) == 1


def test_what_a_widget_of_the_lab_saves_is_what_is_kept():
    import torch

    widget = show.strides(torch.arange(6).view(2, 3))  # with a class of its own beside it
    _own_widgets.cache_clear()
    assert _own_widgets()["StrideView"] is StrideView is not type(widget)
    state = widget.get_state()
    state["layout"] = "IPY_MODEL_layout"
    state = json.loads(json.dumps(state, default=lambda _: None))
    made = with_models(own=any_model() | {"state": state})
    assert keep_own_code(made) == 0
    assert models_of(made)["own"]["state"] == state


@pytest.mark.parametrize(
    ("saved_as", "kept"),
    [
        ("labkit.widgets.stride_view.StrideView", 1),  # before widgets had folders
        ("labkit.StrideView", 1),
        ("labkitten.StrideView", 0),
        ("StrideView", 0),
        ("labkit.LabWidget", 0),
    ],
)
def test_a_widget_is_known_by_the_name_of_its_class(saved_as, kept):
    made = with_models(own=any_model(_anywidget_id=saved_as))
    assert keep_own_code(made) == 1 - kept
    assert len(models_of(made)) == kept


def test_no_two_widgets_have_one_name():
    _own_widgets()
    ours = [
        kind for kind in _subclasses(LabWidget) if kind.__module__.startswith("labkit.widgets.")
    ]
    assert len(_own_widgets()) == sum(map(_is_written, ours)) > 10


@pytest.mark.parametrize("widgets", [None, [], {}, "x", {STATE: None}, {STATE: {"state": [1]}}])
def test_a_state_that_is_none_does_no_harm(widgets):
    made = notebook(widgets)
    keep_own_code(made)
    assert "widgets" not in made.metadata


def test_the_note_is_not_saved_and_other_cells_are():
    made = with_models(it=FOREIGN["a stranger's"])
    before = copy.deepcopy(made.cells)
    keep_own_code(made)
    assert NOTICE in made.cells[0].metadata
    drop_notice(made)
    drop_notice(made)
    assert made.cells == before


@pytest.fixture
def manager(tmp_path):
    return LabContentsManager(root_dir=str(tmp_path))


def test_opening_leaves_the_file_alone_and_saving_writes_what_was_served(manager, tmp_path):
    file = tmp_path / "x.ipynb"
    nbformat.write(with_models(it=FOREIGN["a stranger's"]), file)
    before = file.read_bytes()
    model = asyncio.run(manager.get("x.ipynb"))
    assert file.read_bytes() == before
    assert NOTICE in model["content"]["cells"][0]["metadata"]
    asyncio.run(manager.save({"type": "notebook", "content": model["content"]}, "x.ipynb"))
    saved = nbformat.read(file, as_version=4)
    assert models_of(saved) == {}
    assert [cell.source for cell in saved.cells] == ["1"]


def test_a_notebook_by_any_name_or_way_is_served_without(manager, tmp_path):
    nbformat.write(with_models(it=FOREIGN["a stranger's"]), tmp_path / "x.json")
    nbformat.write(with_models(it=FOREIGN["a stranger's"]), tmp_path / "x.ipynb")
    model = asyncio.run(manager.get("x.json", type="notebook"))
    assert models_of(model["content"]) == {}
    copied = asyncio.run(manager.copy("x.ipynb", "y.ipynb"))
    assert "stranger" not in (tmp_path / copied["path"]).read_text()
    assert asyncio.run(manager.get("x.ipynb", content=False))["content"] is None
    assert "stranger" in asyncio.run(manager.get("x.ipynb", type="file"))["content"]
