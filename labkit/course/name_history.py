"""What the names of PyTorch's storage stood for: pinned facts, and the walk through them.

The facts lie in `storage_names.yaml`, each with the file or the pull request it was read in.
"""

import functools
from pathlib import Path
from typing import Any

import yaml

from labkit.widgets.graph.graph_view import GraphView

FILE = Path(__file__).with_name("storage_names.yaml")
PYTHON = frozenset({"FloatStorage", "IntStorage", "UntypedStorage"})


@functools.cache
def states() -> tuple[dict[str, Any], ...]:
    """The states, oldest first: `date`, `read_in`, `symbol`, `says` and `lines`, pairs of names."""
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple(
        one | {"lines": [tuple(line.split(" -> ")) for line in one["lines"]]} for one in found
    )


def leads_to(name: str, date: str) -> list[str]:
    """The names passed from this one on, as they stood at a date ("2019" or "2019-03-01").

    Raises   KeyError   the name led nowhere then
    """
    then = [one for one in states() if one["date"].startswith("before") or one["date"] <= date][-1]
    lines = dict(then["lines"])
    found = [lines[name]]
    while found[-1] in lines:
        found.append(lines[found[-1]])
    return found


def walk(at: int | str | None = None) -> GraphView:
    """One step per state: an arrow leads from a name to what it stood for; old names are faint."""
    names = list(dict.fromkeys(name for one in states() for line in one["lines"] for name in line))
    every = list(dict.fromkeys(line for one in states() for line in one["lines"]))
    nodes = [{"label": name, "kind": "Python" if name in PYTHON else "C or C++"} for name in names]
    edges = [{"source": names.index(a), "target": names.index(b)} for a, b in every]
    frames = []
    for one in states():
        there = {name for line in one["lines"] for name in line}
        frames.append(
            {
                "text": f"{one['date']}: {one['says']} ({one['read_in']})",
                "absent": [i for i, name in enumerate(names) if name not in there],
                "absent_edges": [i for i, line in enumerate(every) if line not in one["lines"]],
            }
        )
    return GraphView(nodes, edges, frames, simple=True).open_at(at)
