"""`show.holders`: who holds whom, from names to tensors to storages, statement by statement."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from labkit.widgets.graph.graph_view import GraphView

if TYPE_CHECKING:
    import torch

Pair = tuple[int, int]


def holders(
    program: str,
    *,
    using: Mapping[str, Any] | None = None,
    at: int | str | None = None,
    bases: bool = True,
) -> GraphView:
    """Each statement has run, and the names, tensors and storages of its step can be looked at.

    An arrow leads from a holder to what it holds: from a name, or a list, to a tensor, from a
    tensor to its storage, from a view to its base. What is not there is faint.

    program  Python lines that make torch tensors
    using    names the lines may use; `torch` is there
    at       the step to open at: its number, from 1, or words of its text
    bases    False leaves out the arrows to bases, and what only they lead to is faint, as if it
             were gone; the count of a storage is always PyTorch's, of all its holders

    Raises   ValueError    no statement, none that makes a tensor, or no step `at`
             SyntaxError   the program is not Python
    """
    import torch  # the other pictures do without

    source = textwrap.dedent(program).strip("\n")
    namespace: dict[str, Any] = {"torch": torch, **(using or {})}
    drawing = _Drawing(bases)
    for statement in ast.parse(source, "<program>").body:
        exec(compile(ast.Module([statement], []), "<program>", "exec"), namespace)
        drawing.add(ast.get_source_segment(source, statement) or "", namespace)
    if not drawing.nodes:
        raise ValueError("the program makes no tensor")
    drawing.place()
    return GraphView(drawing.nodes, drawing.edges, drawing.frames(), simple=True).open_at(at)


class _Drawing:
    """All that exists in any step, and what of it exists in each.

    It holds no tensor itself: that would be one holder more.
    """

    def __init__(self, bases: bool) -> None:
        self._bases = bases
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self._lines: dict[Pair, int] = {}
        self._present: dict[Any, int] = {}  # what it is -> node, of the last step
        self._steps: list[tuple[str, set[int], set[int], dict[int, int]]] = []

    def add(self, text: str, namespace: Mapping[str, Any]) -> None:
        """What exists after this statement."""
        import torch

        before, self._present = self._present, {}
        edges: set[int] = set()
        counts: dict[int, int] = {}

        def node(key: Any, label: str, kind: str, badge: str = "") -> int:
            if key not in self._present:
                if key not in before:
                    badges = [badge] if badge else []
                    self.nodes.append({"label": label, "kind": kind, "badges": badges})
                self._present[key] = before.get(key, len(self.nodes) - 1)
            return self._present[key]

        def tensor(one: torch.Tensor, name: str) -> int:
            place = node(one._cdata, f"tensor {name}", "tensor", str(tuple(one.shape)))
            handle = one.untyped_storage()
            storage = node(handle._cdata, "storage", "storage", f"{handle.nbytes()} bytes")
            counts[storage] = torch._C._storage_Use_Count(handle._cdata) - 1  # not our handle
            edges.add(self._edge(place, storage))
            if self._bases and one._base is not None:
                edges.add(self._edge(place, tensor(one._base, "without a name"), "base"))
            return place

        for name, held in _tensors(namespace):
            edges.add(self._edge(node((name, held._cdata), name, "name"), tensor(held, name)))
        present = {*self._present.values()}
        self._steps.append((text, present, edges, counts))

    def _edge(self, source: int, target: int, label: str = "") -> int:
        if (source, target) not in self._lines:
            self._lines[source, target] = len(self.edges)
            self.edges.append({"source": source, "target": target, "label": label})
        return self._lines[source, target]

    def frames(self) -> list[dict[str, Any]]:
        """A frame per statement."""
        everything, every_line = {*range(len(self.nodes))}, {*range(len(self.edges))}
        storages = [i for i, one in enumerate(self.nodes) if one["kind"] == "storage"]
        frames = []
        for text, present, edges, counts in self._steps:
            notes = {i: f"held by {counts[i]}" if i in counts else None for i in storages}
            frames.append(
                {
                    "text": text,
                    "notes": notes,
                    "absent": sorted(everything - present),
                    "absent_edges": sorted(every_line - edges),
                }
            )
        return frames

    def place(self) -> None:
        """Names stand above their tensors, and these above their storage; bases are in between.

        A base stands in the middle of its views, so their ways to the storage lead past it.
        """
        holds: dict[int, list[int]] = {}
        for one in self.edges:
            holds.setdefault(one["target"], []).append(one["source"])
        left = 0
        for storage in (i for i, one in enumerate(self.nodes) if one["kind"] == "storage"):
            tensors = sorted(holds[storage])
            base = next((t for t in tensors if self._is_base(t)), None)
            if base is not None:
                views = [t for t in tensors if t != base]
                middle = len(views) // 2
                tensors = [*views[:middle], base, *views[middle:]]
            left = self._columns(left, storage, tensors, base, holds)

    def _is_base(self, tensor: int) -> bool:
        return any(one["target"] == tensor and one["label"] == "base" for one in self.edges)

    def _columns(
        self, left: int, storage: int, tensors: list[int], base: int | None, holds: dict[int, Any]
    ) -> int:
        """The storage with all above it stands to the right of `left`; what comes next does too."""
        first, low = left, 2 if base is not None else 1
        for tensor in tensors:
            names = [i for i in holds.get(tensor, ()) if self.nodes[i]["kind"] == "name"]
            middle = left + max(len(names) - 1, 0) / 2
            self.nodes[tensor]["at"] = (middle, low if tensor == base else 1)
            for at, name in enumerate(names):
                self.nodes[name]["at"] = (left + at, 0)
            if low == 2 and tensor != base:
                self.edges[self._lines[tensor, storage]]["route"] = [(middle, 2)]
            left += max(len(names), 1)
        under = self.nodes[base]["at"][0] if base is not None else (first + left - 1) / 2
        self.nodes[storage]["at"] = (under, low + 1)
        return left


def _tensors(namespace: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The names that lead to tensors, each with its tensor; those of a list, one by one."""
    import torch

    for name, value in namespace.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, torch.Tensor):
                yield name, one
