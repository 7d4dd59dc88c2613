"""What every widget of the lab shares: one ESM per class, a picture, and a line of text.

A widget is `name.py` (traits: plain data in, choices out) beside `name.js` (drawing). To write one:

    class BlockMap(LabWidget):
        blocks = traitlets.List().tag(sync=True)

        def summary(self) -> str:          # one line, no addresses: BlockMap(3 blocks)
            return f"{len(self.blocks)} blocks"

        def svg(self) -> str:              # the picture where no JavaScript runs
            picture = Picture(300, 40, label=self.summary())
            ...
            return picture.svg()

`name.js` is an anywidget module: it ends in `export default { render }`. The helpers of `base.js`
are in scope as `lk` (stepper, keyboard, theme colours, SVG and DOM elements, typed columns); files
named in `parts` come before it too. Indentation and lines that begin with // stay at home.
Everything a widget can show is in its traits, so the same module draws in JupyterLab, in a reopened
notebook and in a static page; nothing in it may wait for Python.
"""

import base64
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import anywidget
import numpy as np
import traitlets

from labkit.widgets.picture import Picture

HERE = Path(__file__).parent
MAX_EXACT_INTEGER = 2**53
"""Beyond this a JavaScript number no longer holds every integer."""

Schema = dict[str, list[Any]]


def widget_id(kind: type) -> str:
    """What a saved notebook calls the class: its name alone, for files move."""
    return f"labkit.{kind.__name__}"


class LabWidget(anywidget.AnyWidget):
    """A widget with a deterministic one-line text form and a picture, drawn from the same state."""

    parts: ClassVar[tuple[str, ...]] = ()
    """JavaScript files of `labkit/widgets` that come before the class's own: shared drawing."""

    opened = False
    """Whether `open_at` chose the step."""

    frame = traitlets.Int(0, help="the step shown, where a widget has steps").tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Load `name.js` from beside the class's module, and the `.css` beside every script."""
        script = Path(inspect.getfile(cls)).with_suffix(".js")
        if "_esm" not in cls.__dict__ and script.exists():
            scripts = [*(HERE / name for name in ("base.js", *cls.parts)), script]
            cls._esm = "".join(map(_lean, scripts))
            styles = (path.with_suffix(".css") for path in scripts)
            cls._css = "".join(_lean(path) for path in styles if path.exists())
        super().__init_subclass__(**kwargs)

    def __init__(self, **traits: Any) -> None:
        """Open the widget under the name of the class whose script it runs, not of a subclass."""
        home = next((kind for kind in type(self).__mro__ if "_esm" in kind.__dict__), type(self))
        super().__init__(_anywidget_id=widget_id(home), **traits)

    def summary(self) -> str:
        """What stands between the parentheses of the text form: short, and without addresses."""
        return ""

    def step_texts(self) -> list[str]:
        """What each step says, in order; empty where there is nothing to walk."""
        return []

    def open_at(self, step: int | str | None) -> Self:
        """The widget stands at the step worth seeing, on the page and in the picture.

        step   its number as the page counts, from 1, or -1 for the last; or words of its text, of
               which the first step that has them is taken; None leaves the widget as it is

        Raises   ValueError   no such step
        """
        if step is None:
            return self
        self.opened = True
        texts = self.step_texts()
        if isinstance(step, str):
            found = next((place for place, text in enumerate(texts) if step in text), None)
            if found is None:
                said = "; ".join(dict.fromkeys(text[:60] for text in texts))
                raise ValueError(f"no step says {step!r}; they say: {said[:400] or 'nothing'}")
            self.frame = found
        elif 1 <= step <= len(texts) or step < 0 <= len(texts) + step:
            self.frame = step - 1 if step > 0 else len(texts) + step
        else:
            raise ValueError(f"no step {step}; there are {len(texts)}, counted from 1")
        return self

    def svg(self) -> str:
        """The picture shown where no JavaScript runs; subclasses draw their state."""
        picture = Picture(16 + 7.5 * len(repr(self)), 36, label=repr(self))
        picture.text(8, 22, repr(self))
        return picture.svg()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live view, with the picture (an <img>: inline <svg> is stripped when untrusted)."""
        data = {
            "text/plain": repr(self),
            "text/html": picture_html(self.svg(), alt=repr(self)),
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 1,
                "model_id": self.model_id,
            },
        }
        return data, {}


def picture_html(svg: str, alt: str) -> str:
    """An <img> holding the SVG as a data URI, which survives sanitizers and needs no network."""
    data = base64.b64encode(svg.encode()).decode()
    escaped = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'<img class="lk-picture" alt="{escaped}" src="data:image/svg+xml;base64,{data}">'


def _lean(path: Path) -> str:
    """A file without indentation and comment lines: it travels once per widget on the page."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def pack_columns(columns: Mapping[str, Any]) -> tuple[Schema, bytes]:
    """Named one-dimensional arrays as (schema, bytes) for a traitlets.Bytes trait.

    schema  name -> [kind, first byte, count]; kind is numpy's ("u1", "i4", "f4", "f8", ...).
            JavaScript reads it with `lk.columns(schema, model.get("name"))` into typed arrays.

    64-bit integers are narrowed to i4, else to f8 where that is exact, else stay i8 (BigInt).

    Raises   TypeError    an array that is not made of real numbers or booleans
             ValueError   an array that is not one-dimensional
    """
    schema: Schema = {}
    buffer = bytearray()
    for name, values in columns.items():
        array = _narrowed(name, np.asarray(values))
        buffer.extend(bytes(-len(buffer) % 8))  # typed arrays must start at a multiple of itemsize
        schema[name] = [array.dtype.str[1:], len(buffer), int(array.size)]
        buffer.extend(array.tobytes())
    return schema, bytes(buffer)


def unpack_columns(schema: Schema, buffer: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that `pack_columns` packed, with the kinds they travelled in."""
    return {
        name: np.frombuffer(buffer, dtype=f"<{kind}", count=count, offset=start)
        for name, (kind, start, count) in schema.items()
    }


def _narrowed(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.ndim != 1:
        raise ValueError(f"column {name!r} must have one dimension, got shape {array.shape}")
    if array.dtype.kind == "b":
        return array.astype("u1")
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TypeError(f"column {name!r} has dtype {array.dtype}; real numbers travel, others not")
    if array.dtype == np.float16:
        return array.astype("<f4")
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low >= -(2**31) and high < 2**31:
            return array.astype("<i4")
        if max(-low, high) <= MAX_EXACT_INTEGER:
            return array.astype("<f8")
    return array.astype(array.dtype.newbyteorder("<"))
