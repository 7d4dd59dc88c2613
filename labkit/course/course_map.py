"""The map of the course: which of its written chapters needs which, and what is passed."""

from typing import Any

from labkit.course import exercises
from labkit.course.notebook_form import ROOT
from labkit.course.plan import planned
from labkit.course.progress_file import state_of
from labkit.widgets.graph.graph_view import GraphView


def map_data() -> tuple[list[dict[str, Any]], list[dict[str, int]]]:
    """(nodes, edges): a node per written chapter, an edge from each to those that need it."""
    plan = {name: entry for name, entry in planned().items() if _is_written(name)}
    verdicts = _verdicts()
    done = exercises_passed()
    place = {name: index for index, name in enumerate(plan)}
    nodes = []
    for name, entry in plan.items():
        passed, asked = done.get(name, (0, 0))
        corrected = [c for c in entry["claims"] if verdicts[c] not in ("holds", "unverifiable")]
        nodes.append(
            {
                "label": name.rpartition("/")[2].replace("_", " "),
                "kind": "passed" if passed == asked else "open",
                "group": name.partition("/")[0],
                "details": {
                    "notebook": name,
                    "title": entry["title"],
                    "document": entry["document"],
                    "time": f"{entry['minutes']} minutes, difficulty {entry['difficulty']} of 5",
                    "exercises": f"{passed} of {asked} passed",
                    "corrected claims": ", ".join(corrected) or "none",
                },
            }
        )
    edges = [
        {"source": place[needed], "target": place[name]}
        for name, entry in plan.items()
        for needed in _written_needs(entry["needs"])
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


def _verdicts() -> dict[str, str]:
    from labkit.course.claims import all_claims

    return {claim_id: entry["verdict"] for claim_id, entry in all_claims().items()}


def map() -> GraphView:  # noqa: A001
    """Draw the chapters as a graph; select one to see its document, exercises and corrections."""
    nodes, edges = map_data()
    return GraphView(nodes, edges, title="The course: an arrow leads to what needs it")
