"""`show.code`: labkit's source beside PyTorch's installed headers, and any other text."""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labkit.widgets.code.code_view import CodeView

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
    meet: Sequence[Sequence[str]] = (),
    title: str = "",
    at: int | str | None = None,
    together: bool = False,
) -> CodeView:
    """The sources side by side; `links`, `marks` and `stations` as `CodeView` takes them.

    sources  each a Python class, function or module (its own file and line numbers), a Path, a
             pane that `torch_file` returned, or a mapping with `title` and `text`
    meet     places where the sources say the same: what is said, then in each source a whole line,
             or a piece of it. Their lines are linked, and the walk stops at the last one
    at       the station to open at: its number, from 1, or words of its text
    together  one pane holds all of them, to be copied at once; a text among them is code as it is

    Raises   TypeError    a source that is none of these
             ValueError   no station `at`, or a piece of a line that its source does not hold
    """
    panes = [_together(sources, title)] if together else [_pane(source) for source in sources]
    meetings = [
        [(pane, *_line(panes[pane], piece)) for pane, piece in enumerate(pieces)]
        for _, *pieces in meet
    ]
    stops = [
        {"pane": places[-1][0], "lines": places[-1][1:], "text": said}
        for (said, *_), places in zip(meet, meetings, strict=True)
    ]
    return CodeView(
        panes,
        links=[*links, *meetings],
        marks=marks,
        stations=[*stations, *stops],
        title=title,
    ).open_at(at)


def _line(pane: Mapping[str, Any], piece: str) -> tuple[int, int]:
    """The number of the line that is this piece, or of the first that holds it, twice."""
    lines = pane["lines"] if "lines" in pane else pane["text"].split("\n")
    at = next((i for i, line in enumerate(lines) if line == piece), None)
    if at is None:
        at = next((i for i, line in enumerate(lines) if piece in line), None)
    if at is None:
        raise ValueError(f"no line of {pane['title']} holds {piece!r}")
    number = at + pane.get("first_line", 1)
    return number, number


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


def _together(sources: Sequence[Any], title: str) -> dict[str, Any]:
    texts = [source if isinstance(source, str) else _text(_pane(source)) for source in sources]
    return {"title": title or "all of it", "text": "\n\n\n".join(texts), "language": "python"}


def _text(pane: Mapping[str, Any]) -> str:
    return textwrap.dedent(pane["text"] if "text" in pane else "\n".join(pane["lines"])).strip()


def _pane(source: Any) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, Path):
        language = LANGUAGES.get(source.suffix, "text")
        return {"title": source.name, "text": source.read_text("utf-8"), "language": language}
    if not (inspect.isclass(source) or inspect.isroutine(source) or inspect.ismodule(source)):
        raise TypeError(f"show.code takes Python objects, paths and panes, not {source!r}")
    lines, first = _source_lines(source)
    return {
        "title": getattr(source, "__qualname__", source.__name__),
        "lines": [line.rstrip("\n") for line in lines],
        "first_line": max(1, first),
        "language": "python",
    }


def _source_lines(source: Any) -> tuple[list[str], int]:
    """The source and its first line; also of a class from a notebook, whose file has no name."""
    try:
        return inspect.getsourcelines(source)
    except OSError:
        if not inspect.isclass(source):
            raise
    for lines in _cells_of(source):
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef) and node.name == source.__name__:
                first = min([node.lineno, *(above.lineno for above in node.decorator_list)])
                return lines[first - 1 : node.end_lineno], first
    raise OSError(f"the source of {source.__name__} is not there any more")


def _cells_of(source: type) -> Iterator[list[str]]:
    """The lines of every cell that may define the class: its methods' own, then the newest."""
    for found in vars(source).values():
        if inspect.isfunction(found):
            yield linecache.getlines(found.__code__.co_filename)
    entries: list[Any] = list(linecache.cache.values())
    for entry in reversed(entries):
        is_cell = len(entry) == 4 and entry[1] is None  # a file would have a time of change
        if is_cell and any(f"class {source.__name__}" in line for line in entry[2]):
            yield entry[2]
