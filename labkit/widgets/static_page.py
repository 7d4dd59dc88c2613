# mypy: disallow-untyped-calls=False
"""A notebook as one HTML file whose widgets work without a server, and without a network.

`labkit html NOTEBOOK OUT` runs the notebook and writes the page. The widgets' state is in it; a
loader of a few lines gives it back to each widget's own module. Without JavaScript the pictures
stand in their places. Running a notebook trusts its cells; `--as-is` runs none, and trusts what
they left: the page holds their HTML and the modules of their widgets as they were saved.
"""

import argparse
import copy
import html
import json
import sys
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).parent
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
HIDDEN = {"predict", "backstage"}
"""Tags of cells whose source the notebook hides; nbconvert does not ask for `source_hidden`."""


def render_page(notebook: Any, title: str, above: str = "") -> str:
    """The HTML page of a notebook that has been run, its widget state in its metadata.

    above   HTML that stands before the notebook
    """
    from nbconvert import HTMLExporter
    from nbconvert.filters import Highlight2HTML
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]

    notebook = copy.deepcopy(notebook)
    states = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    used = _replace_views(notebook)
    for cell in notebook.cells:
        if HIDDEN & set(cell.metadata.get("tags", [])):
            cell.metadata["transient"] = {"remove_source": True}
    exporter = HTMLExporter(template_name="basic")
    exporter.register_filter("highlight_code", Highlight2HTML(pygments_lexer="ipython3"))
    body, _ = exporter.from_notebook_node(notebook)
    light = HtmlFormatter(style="default", nobackground=True).get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark", nobackground=True).get_style_defs(".highlight")
    widgets = script_json(_widgets(states, used))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_read("static_page.css")}{light}
@media (prefers-color-scheme: dark) {{ {dark} }}</style></head>
<body>{above}<main>{body.replace('.ipynb"', '.html"')}</main>
<script type="application/json" id="lk-widgets">{widgets}</script>
<script>{_read("static_page.js")}</script>
</body></html>
"""


def script_json(value: Any) -> str:
    """The value as JSON that may stand in a <script>: no text in it can end or change the element.

    Every "<" is written as an escape: "</script" ends a script, and after "<!--<script" the
    element's own end no longer does.
    """
    return json.dumps(value, sort_keys=True).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def widget_page(widget: Any, title: str, above: str = "") -> str:
    """The HTML page of one widget that was made in this process; `above` as in `render_page`."""
    from ipywidgets import Widget

    data, _ = widget._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    notebook.cells[0].metadata["transient"] = {"remove_source": True}
    saved = Widget.get_manager_state(widgets=[widget])
    notebook.metadata["widgets"] = {STATE: saved}
    return render_page(notebook, title, above)


def _replace_views(notebook: Any) -> list[str]:
    """Put a named place with its picture where each widget was; returns the models' ids."""
    used = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(VIEW)
            if view is not None:
                model = view["model_id"]
                used.append(model)
                picture = output.data.get("text/html") or html.escape(output.data["text/plain"])
                place = f'<div data-widget="{html.escape(model)}">{picture}</div>'
                output.data = nbformat.from_dict({"text/html": place})
    return list(dict.fromkeys(used))


def _widgets(states: dict[str, Any], used: list[str]) -> dict[str, Any]:
    """State of the shown widgets; a module or style that several share is written once."""
    sources: dict[str, int] = {}
    styles: dict[str, int] = {}
    models = {}
    for model in used:
        saved = states.get(model)
        if saved is None or "_esm" not in saved["state"]:
            continue  # a plain ipywidget: its picture or text stays
        state = dict(saved["state"])
        source = sources.setdefault(state.pop("_esm"), len(sources))
        styles.setdefault(state.pop("_css", ""), len(styles))
        models[model] = {
            "source": source,
            "state": {name: value for name, value in state.items() if not name.startswith("_")},
            "buffers": saved.get("buffers", []),
        }
    return {"models": models, "sources": list(sources), "styles": list(styles)}


def read_notebook(path: Path) -> Any:
    """The notebook in a file.

    Raises   RuntimeError   the file holds no notebook of format 4
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RuntimeError(f"{path} is not a notebook: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise RuntimeError(f"{path} is not a notebook of format 4: it has no list of cells")
    return nbformat.reads(json.dumps(content), as_version=4)


def run_notebook(path: Path, allow_errors: bool = False, timeout_s: int = 600) -> Any:
    """The notebook after every cell has run in a fresh kernel, widget state included.

    Raises   RuntimeError   a cell failed, unless `allow_errors`
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = read_notebook(path)
    client = NotebookClient(
        notebook, timeout=timeout_s, allow_errors=allow_errors,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    try:
        client.execute()
    except CellExecutionError as error:
        raise RuntimeError(f"{path}: a cell failed\n{error}") from error
    return notebook


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `labkit html`."""
    parser.add_argument("source", type=Path, help="a notebook, or a folder of notebooks")
    parser.add_argument("out", type=Path, help="the page to write; for a folder, a folder")
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="do not run: use outputs and widget state as saved. The page then runs whatever "
        "script the file's outputs and widgets hold, so do this to files you trust",
    )
    parser.add_argument(
        "--allow-errors", action="store_true", help="go on when a cell fails, as exercises do"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the pages; 0 when all were written."""
    source: Path = arguments.source
    if source.is_dir():
        found = sorted(
            path for path in source.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
        )
        pages = [
            (path, arguments.out / path.relative_to(source).with_suffix(".html")) for path in found
        ]
    elif source.suffix == ".ipynb" and source.exists():
        out = arguments.out
        pages = [(source, out / f"{source.stem}.html" if out.is_dir() else out)]
    else:
        pages = []
    if not pages:
        print(f"labkit html: no notebook at {source}", file=sys.stderr)
        return 2
    for path, page in pages:
        try:
            notebook = (
                read_notebook(path)
                if arguments.as_is
                else run_notebook(path, arguments.allow_errors)
            )
        except RuntimeError as error:
            print(f"labkit html: {error}", file=sys.stderr)
            return 1
        page.parent.mkdir(parents=True, exist_ok=True)
        text = render_page(notebook, path.stem.replace("_", " "))
        page.write_text(text, encoding="utf-8", errors="replace")  # half a surrogate pair
        print(f"{page}  {page.stat().st_size / 1000:.0f} kB")
    return 0
