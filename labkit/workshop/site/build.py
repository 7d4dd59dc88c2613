"""Runs the chapters and writes the pages."""

import argparse
import copy
import html
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from labkit.course.chapters.editions import tasks
from labkit.course.notebook_form import notebook_name, notebook_paths, read_notebook
from labkit.widgets.static_page import STATE, VIEW, render_page, run_notebook
from labkit.workshop.site.index import index_page, search_entries, search_script
from labkit.workshop.site.links import broken_links
from labkit.workshop.site.one_step import STEP, step_page
from labkit.workshop.site.your_snapshot import PAGE, snapshot_page

HERE = Path(__file__).parent
TIMEOUT_S = 600
LARGEST_MB = 60
LESSON = ("ExerciseCard", "PredictionView", "RevealedView")
"""Widgets that belong to their chapter: alone on a page they say nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `labkit site`."""
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument(
        "chapters", nargs="*", help="names, as 2_core_code/3_strides; all of them if none is named"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the site; 1 where a link leads nowhere, a page asks elsewhere, or it is too large."""
    chosen = [
        path
        for path in notebook_paths()
        if not arguments.chapters or notebook_name(path) in arguments.chapters
    ]
    if not chosen:
        print(f"labkit site: no chapter {' '.join(arguments.chapters)}", file=sys.stderr)
        return 2
    try:
        build(arguments.out, chosen)
    except RuntimeError as error:
        print(f"labkit site: {error}", file=sys.stderr)
        return 1
    troubles = broken_links(arguments.out)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file()) / 1e6
    if size > LARGEST_MB:
        troubles.append(f"the site has {size:.0f} MB, {LARGEST_MB} are allowed")
    print("\n".join(troubles), end="\n" if troubles else "")
    print(f"{arguments.out / 'index.html'}  {len(chosen)} chapters, {size:.1f} MB")
    return 1 if troubles else 0


def build(out: Path, paths: Sequence[Path]) -> None:
    """The pages of these chapters lie in the folder, and the index of all of them.

    Raises   RuntimeError   a chapter could not be run to its end
    """
    out.mkdir(parents=True, exist_ok=True)
    names = {notebook_name(path): path for path in paths}
    entries: list[dict[str, str]] = []
    kinds: dict[str, tuple[str, Any]] = {}
    os.environ["LABKIT_PROGRESS"] = "off"  # a page shows nobody's progress
    for name, path in names.items():
        source = read_notebook(path)
        executed = run_notebook(path, timeout_s=TIMEOUT_S)
        entries += search_entries(name, source)
        for kind, alone in single_widgets(executed):
            kinds.setdefault(kind, (name, alone))
        page = out / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = chapter_page(name, source, executed, set(names))
        page.write_text(text, encoding="utf-8", errors="replace")
        print(f"{page}  {page.stat().st_size / 1000:.0f} kB", flush=True)
    for kind, (name, alone) in kinds.items():
        page = out / "widgets" / f"{kind}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(render_page(alone, f"{kind}, from {name}"), encoding="utf-8")
    (out / "search.js").write_text(search_script(entries), encoding="utf-8")
    for style in ("index.css", "index.js"):
        (out / style).write_text((HERE / style).read_text(encoding="utf-8"), encoding="utf-8")
    (out / STEP).write_text(step_page(), encoding="utf-8")
    (out / PAGE).write_text(snapshot_page(), encoding="utf-8")
    (out / "index.html").write_text(index_page(list(names), list(kinds)), encoding="utf-8")


def chapter_page(name: str, source: Any, executed: Any, written: set[str]) -> str:
    """The page of a chapter: a way back above it, and each solution folded below its exercise."""
    shown = copy.deepcopy(executed)
    answers = {task.stub["id"]: task for task in tasks(source)}
    cells = []
    for cell in shown.cells:
        cells.append(cell)
        if task := answers.get(cell.id):
            cells.append(_folded(task.solution))
    shown.cells = cells
    up = "../" * name.count("/")
    title = source["metadata"]["labkit"]["title"]
    above = f'<nav><a href="{up}index.html">All chapters</a></nav>'
    return _without_dead_ends(render_page(shown, title, above), name, written)


def _folded(solution: str) -> Any:
    text = f"<details><summary>A solution</summary>\n\n{solution}\n\n</details>"
    return nbformat.v4.new_markdown_cell(text)  # type: ignore[no-untyped-call]


def _without_dead_ends(page: str, name: str, written: set[str]) -> str:
    """Links to chapters that are not on this site lead to its index."""
    up = "../" * name.count("/")
    here = Path(name).parent
    for path in notebook_paths():
        other = notebook_name(path)
        if other not in written:
            target = Path(os.path.relpath(other, here)).as_posix()
            page = page.replace(f'href="{target}.html"', f'href="{up}index.html"')
    return page


def single_widgets(executed: Any) -> Iterator[tuple[str, Any]]:
    """(kind, a notebook that shows it alone) of every widget of a notebook that was run."""
    states = executed.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(VIEW)
            state = states.get(view["model_id"], {}).get("state", {}) if view else {}
            kind = state.get("_anywidget_id", "").rpartition(".")[2]
            if kind and kind not in LESSON:
                alone = nbformat.v4.new_notebook(metadata=executed.metadata)  # type: ignore[no-untyped-call]
                one = nbformat.v4.new_code_cell(outputs=[output])  # type: ignore[no-untyped-call]
                one.metadata["transient"] = {"remove_source": True}
                alone.cells = [one]
                yield html.escape(kind), alone
