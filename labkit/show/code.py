"""`show.code`: labkit's source beside PyTorch's installed headers, and any other text."""

import inspect
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labkit.widgets.code_view import CodeView

LANGUAGES = {
    ".py": "python",
    ".h": "cpp",
    ".hpp": "cpp",
    ".cpp": "cpp",
    ".cu": "cuda",
    ".cuh": "cuda",
}
SYMBOL_LINES = 60


def code(
    *sources: Any,
    links: Sequence[Sequence[tuple[int, int, int]]] = (),
    marks: Sequence[Mapping[str, Any]] = (),
    stations: Sequence[Mapping[str, Any]] = (),
    title: str = "",
    at: int | str | None = None,
) -> CodeView:
    """The sources side by side; `links`, `marks` and `stations` as `CodeView` takes them.

    sources  each a Python class, function or module (its own file and line numbers), a Path, a
             pane that `torch_file` returned, or a mapping with `title` and `text`
    at       the station to open at: its number, from 1, or words of its text

    Raises   TypeError    a source that is none of these
             ValueError   no station `at`
    """
    return CodeView(
        [_pane(source) for source in sources],
        links=links,
        marks=marks,
        stations=stations,
        title=title,
    ).open_at(at)


def torch_file(path: str, symbol: str = "", lines: int = SYMBOL_LINES) -> dict[str, Any]:
    """A pane with a header or Python file of the installed PyTorch, from `symbol` on.

    path    as in PyTorch's source tree: "c10/core/StorageImpl.h", "torch/_tensor.py"
    symbol  text of the first line wanted, e.g. "struct C10_API StorageImpl"; "" for the whole file

    Raises   FileNotFoundError   this file does not ship with the installed PyTorch
             ValueError          the symbol is not in the file
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("PyTorch is not installed, so its files cannot be shown")
    package = Path(spec.origin).parent
    places = [package / "include" / path, package.parent / path]
    places += [package / "include" / path.removeprefix("aten/src/")]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise FileNotFoundError(f"{path} does not ship with the installed PyTorch")
    text = file.read_text(encoding="utf-8").split("\n")
    first = 0
    if symbol:
        first = next((i for i, line in enumerate(text) if symbol in line), -1)
        if first < 0:
            raise ValueError(f"{symbol!r} does not occur in {path}")
        text = text[first : first + lines]
    language = LANGUAGES.get(file.suffix, "text")
    return {"title": path, "lines": text, "first_line": first + 1, "language": language}


def _pane(source: Any) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, Path):
        language = LANGUAGES.get(source.suffix, "text")
        return {"title": source.name, "text": source.read_text("utf-8"), "language": language}
    if not (inspect.isclass(source) or inspect.isroutine(source) or inspect.ismodule(source)):
        raise TypeError(f"show.code takes Python objects, paths and panes, not {source!r}")
    lines, first = inspect.getsourcelines(source)
    return {
        "title": getattr(source, "__qualname__", source.__name__),
        "lines": [line.rstrip("\n") for line in lines],
        "first_line": max(1, first),
        "language": "python",
    }
