# mypy: disallow-untyped-calls=False
"""Widget state as a notebook file holds it, without any code but the lab's own.

JupyterLab brings saved widgets to life when a notebook is opened, trusted or not, and a saved
anywidget carries its JavaScript: a file from a stranger would run it, with the kernel in reach.
What is kept here are the lab's widgets, as data, under the source that lies beside their classes
now, and the plain widgets of ipywidgets, which carry none.
"""

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import nbformat

import labkit.widgets
from labkit.widgets.base import LabWidget, widget_id
from labkit.widgets.static_page import STATE

NOTICE = "lab-removed-code"
"""Id of the cell that says what was removed; it is shown and never saved."""

WITHOUT_CODE = ("@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output")
"""Modules of ipywidgets. Their HTML is drawn where an output shows it, and JupyterLab shows none
in a notebook that is not trusted."""


def keep_own_code(notebook: dict[str, Any]) -> int:
    """How many saved widgets were removed from a notebook, which says so in its first cell."""
    metadata = notebook.get("metadata")
    if not isinstance(metadata, dict) or "widgets" not in metadata:
        return 0
    saved = metadata.pop("widgets")
    models = _models_of(saved)
    kept = dict(_kept(models))
    if kept:
        state = {STATE: {"version_major": 2, "version_minor": 0, "state": kept}}
        metadata["widgets"] = nbformat.from_dict(state)
    removed = len(models) - len(kept)
    if removed:
        notebook["cells"].insert(0, _notice(notebook, removed))
    return removed


def drop_notice(notebook: dict[str, Any]) -> None:
    """The notebook has no cell that `keep_own_code` added."""
    cells = notebook.get("cells")
    if isinstance(cells, list) and cells and NOTICE in (cells[0].get("metadata") or {}):
        del cells[0]


def _notice(notebook: dict[str, Any], removed: int) -> Any:
    widgets = "a saved widget" if removed == 1 else f"{removed} saved widgets"
    cell: dict[str, Any] = {
        "cell_type": "markdown",
        "metadata": {NOTICE: removed, "editable": False},
        "source": (
            f"> **Removed for your safety: {widgets} with code that is not the lab's.**\n"
            "> It would have run by itself when you opened this file. To see the widgets, read "
            "the cells, then run them. The file is as it was until you save it; saving writes it "
            "without them, and without this note."
        ),
    }
    if (notebook.get("nbformat", 4), notebook.get("nbformat_minor", 0)) >= (4, 5):
        cell["id"] = NOTICE
    return nbformat.from_dict(cell)


def _models_of(saved: Any) -> dict[str, Any]:
    """Id -> model; what is no state at all counts as one model that cannot be kept."""
    try:
        models = saved[STATE]["state"]
    except (KeyError, TypeError, IndexError):
        return {"": saved} if saved else {}
    return dict(models) if isinstance(models, Mapping) else {"": models}


def _kept(models: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, model in models.items():
        if not isinstance(model, Mapping) or not isinstance(model.get("state"), Mapping):
            continue
        state = model["state"]
        if model.get("model_module") in WITHOUT_CODE:
            named = {state.get("_model_module"), state.get("_view_module")} - {None}
            if named <= set(WITHOUT_CODE):
                yield name, {**model, "buffers": _buffers(model, frozenset(state))}
        elif (own := _lab_model(model)) is not None:
            yield name, own


def _lab_model(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """The model with what is data in it, under the lab's own source; None when it is not ours."""
    state = model["state"]
    if model.get("model_module") != "anywidget" or model.get("model_name") != "AnyModel":
        return None
    owner, _, name = str(state.get("_anywidget_id")).rpartition(".")
    widget = _own_widgets().get(name) if owner.split(".")[0] == labkit.__name__ else None
    if widget is None:
        return None
    data, code = _traits(widget)
    return {
        "model_module": "anywidget",
        "model_name": "AnyModel",
        "model_module_version": code["_model_module_version"],
        "state": {name: value for name, value in state.items() if name in data} | code,
        "buffers": _buffers(model, data),
    }


def _buffers(model: Mapping[str, Any], data: frozenset[str]) -> list[Any]:
    """The buffers whose path starts at one of these names and takes no back door out of it."""
    buffers = model.get("buffers")
    return [
        buffer
        for buffer in (buffers if isinstance(buffers, list) else [])
        if isinstance(buffer, Mapping) and _leads_into(data, buffer.get("path"))
    ]


def _leads_into(data: frozenset[str], path: Any) -> bool:
    if not isinstance(path, list) or not all(isinstance(step, str | int) for step in path):
        return False
    steps = [str(step) for step in path]
    public = not any(step.startswith("_") or step == "constructor" for step in steps)
    return public and bool(steps) and steps[0] in data


def _traits(widget: type[LabWidget]) -> tuple[frozenset[str], dict[str, Any]]:
    """The names of the traits that are data, and all that tells JupyterLab what to run."""
    traits = widget.class_traits(sync=True)
    code = {name: trait.default() for name, trait in traits.items() if name.startswith("_")}
    code |= {"_esm": widget._esm, "_css": widget._css, "_anywidget_id": widget_id(widget)}
    return frozenset(name for name in traits if not name.startswith("_")), code


@functools.cache
def _own_widgets() -> dict[str, type[LabWidget]]:
    """Name of a class that draws -> the class."""
    prefix = f"{labkit.widgets.__name__}."
    for module in pkgutil.walk_packages(labkit.widgets.__path__, prefix):
        importlib.import_module(module.name)
    return {
        widget.__name__: widget
        for widget in _subclasses(LabWidget)
        if widget.__module__.startswith(prefix) and _is_written(widget)
    }


def _is_written(widget: type[LabWidget]) -> bool:
    """Whether a module holds it: every widget that is made has a class of its own beside it."""
    return getattr(sys.modules[widget.__module__], widget.__name__, None) is widget


def _subclasses(base: type[LabWidget]) -> Iterator[type[LabWidget]]:
    for widget in base.__subclasses__():
        yield widget
        yield from _subclasses(widget)
