"""Runs a few lines of Python one by one and keeps what each did to tensors and storages."""

import ast
import textwrap
from collections.abc import Mapping
from typing import Any

from labkit.show.scene import Scene, written_texts
from labkit.show.views import is_tensor, read_view
from labkit.widgets.strides.stride_view import StrideView

MAX_TRACKED_CELLS = 4096
"""Writes to a larger storage are not kept step by step."""


def record(source: str, using: Mapping[str, Any]) -> StrideView:
    """A StrideView with a step per statement of `source`.

    using   names the statements may use, besides `torch`

    Raises   ValueError     no statement, or none that leaves a tensor with strides
             SyntaxError    the source is not Python
             RuntimeError   a statement failed; says which
    """
    source = textwrap.dedent(source).strip("\n")
    statements = ast.parse(source, "<program>").body
    if not statements:
        raise ValueError("the program has no statement")
    import torch  # late: no other picture of tensors needs it

    namespace: dict[str, Any] = {"torch": torch, **using}
    scene = Scene()
    steps: list[dict[str, Any]] = []
    for statement in statements:
        text = ast.get_source_segment(source, statement) or ""
        try:
            exec(compile(ast.Module([statement], []), "<program>", "exec"), namespace)
        except Exception as error:
            raise RuntimeError(f"{text!r} failed: {type(error).__name__}: {error}") from error
        steps.append({"text": text} | _moment(scene, namespace, steps))
    if not scene.views:
        raise ValueError("the program leaves no tensor with strides to show")
    widget = scene.widget()
    _keep_writes(scene, steps)
    widget.steps = steps
    if scene.views and "select" in steps[0]:
        widget.selected = steps[0]["select"]
    return widget


def _moment(
    scene: Scene, namespace: Mapping[str, Any], before: list[dict[str, Any]]
) -> dict[str, Any]:
    """What exists now: the tensors alive, their names, versions, and uses of storages."""
    names = [name for name, value in namespace.items() if is_tensor(value) and name[0] != "_"]
    views = [read_view(namespace[name], name) for name in names]
    places = scene.add(views, names)
    alive = list(zip(places, views, strict=True))
    called: dict[int, list[str]] = {}
    for place, name in zip(places, names, strict=True):
        called.setdefault(place, []).append(name)
    step: dict[str, Any] = {
        "alive": list(called),
        "names": {str(place): each for place, each in called.items()},
        "versions": {str(place): view.version for place, view in alive},
        "use_counts": {
            str(scene.views[place]["storage"]): view.memory.use_count for place, view in alive
        },
    }
    known = before[-1]["names"] if before else {}
    new = [place for place in called if len(called[place]) > len(known.get(str(place), ()))]
    if new:
        index = [0] * len(scene.views[new[-1]]["sizes"])
        step["select"] = {"view": new[-1], "index": index}
    return step


def _keep_writes(scene: Scene, steps: list[dict[str, Any]]) -> None:
    """Note in each step which elements differ from the step before, in every dtype they show."""
    known: dict[str, list[str]] = {}
    for step, moment in zip(steps, scene.moments, strict=True):
        step["writes"] = []
        for storage, raw in moment.items():
            if len(raw) // scene.storages[storage]["unit"] > MAX_TRACKED_CELLS:
                continue
            for dtype in scene.dtypes_of(storage):
                column, now = f"{storage}:{dtype}", written_texts(raw, dtype)
                old = known.get(column, now)
                step["writes"] += [
                    [column, at, new] for at, new in enumerate(now) if new != old[at]
                ]
                known[column] = now
