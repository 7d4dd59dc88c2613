"""The map of the course: which of its written chapters needs which, and what is passed."""

from typing import Any

from labkit.course import exercises
from labkit.course.notebook_form import ROOT
from labkit.course.plan import planned
from labkit.course.progress_file import state_of
from labkit.widgets.base import picture_html
from labkit.widgets.graph.graph_view import GraphView


def map_data() -> tuple[list[dict[str, Any]], list[dict[str, int]]]:
    """(nodes, edges): a node per written chapter, an edge from each to those that need it."""
    needs = {name: entry["needs"] for name, entry in planned().items() if _is_written(name)}
    place = {name: index for index, name in enumerate(needs)}
    done = exercises_passed()
    nodes = [
        {
            "label": name.rpartition("/")[2].replace("_", " "),
            "kind": "passed" if len(set(done[name])) == 1 else "open",
            "group": name.partition("/")[0],
        }
        for name in needs
    ]
    edges = [
        {"source": place[needed], "target": place[name]}
        for name, those in needs.items()
        for needed in _written_needs(those)
    ]
    return nodes, edges


def _is_written(name: str) -> bool:
    return (ROOT / "notebooks" / f"{name}.ipynb").exists()


def _written_needs(needs: list[str]) -> list[str]:
    """The needs that are written, and through those that are not, theirs."""
    found: list[str] = []
    for name in needs:
        found += [name] if _is_written(name) else _written_needs(planned()[name]["needs"])
    return list(dict.fromkeys(found))


def exercises_passed() -> dict[str, tuple[int, int]]:
    """Notebook name -> (passed, asked) of its exercises; a boss is not asked for."""
    asked = {
        exercises.notebook_of(module): [
            exercise for exercise in exercises.in_module(module) if exercise.rung != "boss"
        ]
        for module in exercises.modules()
    }
    return {
        name: (sum(state_of(exercise.id).passed for exercise in those), len(those))
        for name, those in asked.items()
    }


def map_html() -> str:
    """The picture of it, as HTML."""
    title = "The course: an arrow leads to what needs it"
    return picture_html(GraphView(*map_data(), title=title).svg(), alt="which chapter needs which")
