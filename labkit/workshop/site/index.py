"""The first page: the chapters by document, a search over their sections, and the widgets."""

import html
import re
from typing import Any

from labkit.course.course_path import lines
from labkit.course.notebook_form import ROOT, Notebook, is_hidden, read_notebook
from labkit.widgets.static_page import script_json
from labkit.workshop.sections import HEADING
from labkit.workshop.site.one_step import STEP
from labkit.workshop.site.your_snapshot import PAGE

DOCUMENTS = {
    "": "Begin here",
    "1_fundamentals": "PyTorch fundamentals",
    "2_core_code": "The core of PyTorch",
    "3_internals": "Dispatcher, autograd, versions",
    "4_vision_low_level": "Kernels, memory, streams",
    "5_optimization": "Making it fast",
    "6_capstones": "Defects that happened",
}


def search_entries(name: str, notebook: Notebook) -> list[dict[str, str]]:
    """What can be found in a chapter: its sections, with their headings and their words."""
    title = notebook["metadata"]["labkit"]["title"].replace("`", "")
    entries = [{"page": f"{name}.html", "title": title, "section": "", "text": ""}]
    for cell in notebook["cells"][1:]:
        if is_hidden(cell):
            continue
        for line in cell["source"].splitlines():
            if cell["cell_type"] == "markdown" and (found := HEADING.match(line)):
                section = found[1].replace("`", "")
                page = f"{name}.html#{section.replace(' ', '-')}"
                entries.append({"page": page, "title": title, "section": section, "text": ""})
            else:
                entries[-1]["text"] += f" {line.strip()}"
    return entries


def search_script(entries: list[dict[str, str]]) -> str:
    """The entries as a script: a page opened as a file may load that, and no data."""
    plain = [{**entry, "text": re.sub(r"[`*#]|\s+", " ", entry["text"])} for entry in entries]
    return f"const ENTRIES = {script_json(plain)};\n"


def index_page(names: list[str], kinds: list[str]) -> str:
    """The page that leads to all others."""
    sections = []
    for folder, title in DOCUMENTS.items():
        inside = [name for name in names if name.rpartition("/")[0] == folder]
        if inside:
            rows = "".join(map(_chapter, inside))
            sections.append(f"<section><h2>{html.escape(title)}</h2><ol>{rows}</ol></section>")
    goals = "".join(f"<li>{html.escape(str(line['goal']))}: {_first(line, names)}</li>"
                    for line in lines().values() if _first(line, names))  # fmt: skip
    widgets = "".join(f'<li><a href="widgets/{k}.html">{_words(k)}</a></li>' for k in sorted(kinds))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>PyTorch Internals Lab</title><link rel="stylesheet" href="index.css"></head>
<body><main><h1>PyTorch Internals Lab</h1>
<p>A course that opens PyTorch up. Every picture here can be stepped, forward and back, and every
question answers: in this page, without a server. To write your own code, take the course home and
run <code>python3 lab.py</code>.</p>
<figure><iframe src="{STEP}" title="One training step: your source, the dispatcher's hops, the
autograd graph, the streams and the memory map"></iframe>
<figcaption>One training step. Move the slider, forward and back; click a kernel, a node, a block or
a line, and every lane goes there. <a href="{STEP}">On a page of its own</a></figcaption></figure>
<label for="search">Search</label> <input id="search" type="search" autocomplete="off">
<ul id="found" aria-live="polite"></ul>
<section><h2>Your own memory snapshot</h2>
<p>Drop the file that <code>torch.cuda.memory._dump_snapshot</code> wrote: this page shows who holds
every byte, at every moment. It is read here, and sent nowhere.</p>
<figure><iframe src="{PAGE}" title="A memory snapshot: an example, or a file of yours"></iframe>
<figcaption><a href="{PAGE}">On a page of its own</a></figcaption></figure></section>
<section><h2>Where to go</h2><ul>{goals}</ul></section>
{"".join(sections)}
<section><h2>The widgets, one on a page</h2><ul class="widgets">{widgets}</ul></section>
</main><script src="search.js"></script><script src="index.js"></script></body></html>
"""


def _about(name: str) -> dict[str, Any]:
    about: dict[str, Any] = read_notebook(ROOT / "notebooks" / f"{name}.ipynb")["metadata"][
        "labkit"
    ]
    return about


def _link(name: str) -> str:
    title = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(_about(name)["title"]))
    return f'<a href="{name}.html">{title}</a>'


def _chapter(name: str) -> str:
    about = _about(name)
    return (
        f"<li>{_link(name)} <small>{about['minutes']} min + "
        f"{about['exercise_minutes']} min exercises</small></li>"
    )


def _first(line: dict[str, Any], names: list[str]) -> str:
    """The first stop of a goal behind the chapter that every goal begins with."""
    there = [stop for stop in line["stops"][1:] if stop in names]
    return _link(there[0]) if there else ""


def _words(kind: str) -> str:
    return html.escape(re.sub(r"(?<!^)([A-Z])", r" \1", kind).lower())
