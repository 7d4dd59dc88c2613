"""A graph of autograd nodes, torch's or labkit's, as the plain data a GraphView draws."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

TEXT_LENGTH = 60
SAVED_STATES = {"tensor (": "tensors saved", "overwritten: ": "✗ overwritten", "freed: ": "freed"}
"""How the text of a saved tensor begins, and the badge that counts those."""
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


class Walk:
    """Nodes met from any number of starts, each described when it is met.

    names    id of a leaf tensor -> what to call it

    nodes, edges   what GraphView takes
    order          the autograd nodes themselves
    slots          (index of a node, number of its result) -> index of the edge from there
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.order: list[Any] = []
        self.slots: dict[tuple[int, int], int] = {}
        self.place: dict[Any, int] = {}
        self._names = names or {}

    def add(self, starts: Iterable[Any]) -> None:
        """Everything that can be reached from these nodes is in the walk."""
        from labkit.autograd.recording import unobserved  # a graph of torch's needs no more of it

        first = len(self.order)
        for start in starts:
            self._meet(start)
        with unobserved():  # to describe is not to use
            grows = islice(self.order, first, None)  # while it is walked: breadth first
            for number, node in enumerate(grows, start=first):
                self.nodes.append(_described(node, self._names))
                for result, (target, slot) in enumerate(node.next_functions):
                    if target is None:
                        continue
                    self.slots[number, result] = len(self.edges)
                    label = str(slot) if slot else ""
                    self.edges.append(
                        {"source": number, "target": self._meet(target), "label": label}
                    )
        self._rank()

    def _meet(self, node: Any) -> int:
        if node not in self.place:
            self.place[node] = len(self.order)
            self.order.append(node)
        return self.place[node]

    def _rank(self) -> None:
        """Operations say which was made first: the later, the earlier it runs backward."""
        made = [i for i, node in enumerate(self.order) if not _is_leaf(node)]
        made.sort(key=lambda i: self.order[i]._sequence_nr())
        for rank, i in enumerate(made):
            self.nodes[i]["badges"] = [f"#{rank}", *self.nodes[i]["saves"]]

    def edge(self, source: int, target: int, slot: int, asked: Counter[Any]) -> list[int]:
        """The next edge from a node to an input slot of another; empty when there is no more.

        asked   how often each was asked for before
        """
        end = (self.order[target], slot)
        ways = enumerate(self.order[source].next_functions)
        nth = asked[source, target, slot]
        asked[source, target, slot] += 1
        return [self.slots[source, result] for result, way in ways if way == end][nth : nth + 1]

    def names(self) -> list[str]:
        """What tells each node from others of its name: MulBackward0 #3, AccumulateGrad x."""
        return [
            " ".join([node["label"], *(badge.split(" (")[0] for badge in node["badges"][:1])])
            for node in self.nodes
        ]  # fmt: skip


def _is_leaf(node: Any) -> bool:
    return short_name(node) == "AccumulateGrad"


def short_name(node: Any) -> str:
    """MulBackward0, AccumulateGrad: the name without its C++ namespace."""
    name: str = node.name()
    return name.rpartition("::")[2]


def _described(node: Any, names: Mapping[int, str]) -> dict[str, Any]:
    name = short_name(node)
    if name == "AccumulateGrad":
        leaf = node.variable
        shape, called = tuple(leaf.shape), names.get(id(leaf), "")
        adds = f"{called or 'leaf'}.grad, of shape {shape}, {leaf.dtype}"
        return {
            "label": name,
            "kind": "leaf",
            "badges": [f"{called or 'leaf'} {shape}"],
            "saves": [],
            "details": {"adds into": adds, "version of the leaf": leaf._version},
        }
    saved, line = _saved_values(node), forward_line(node)
    counts = {word: sum(text.count(word) for text in saved.values()) for word in SAVED_STATES}
    badges = [f"{SAVED_STATES[word]}: {count}" for word, count in counts.items() if count]
    return {
        "label": name,
        "kind": "saves tensors" if badges else "operation",
        "badges": [],
        "saves": badges,
        "details": saved | ({"forward call": line} if line else {}),
    }


def forward_line(node: Any) -> str:
    """The line of the forward call, if anomaly mode noted it; else empty."""
    stack = getattr(node, "forward_stack", None)
    if stack is None and not hasattr(node, "sequence_nr"):
        stack = "".join(node.metadata.get("traceback_", ()))
    lines = [line.strip() for line in (stack or "").splitlines() if line.strip()]
    place = next((i for i in reversed(range(len(lines))) if lines[i].startswith("File ")), None)
    if place is None:
        return ""
    source = lines[place + 1] if place + 1 < len(lines) else ""
    where = lines[place].rpartition(", in ")[0].rpartition(", ")[2]
    return f"{source} ({where})" if source else where


def _saved_values(node: Any) -> dict[str, str]:
    """What the node keeps for backward, by PyTorch's own attribute names."""
    found = {}
    for attribute in dir(node):
        if not attribute.startswith("_saved_"):
            continue
        if has_hooks(node, attribute):
            found[attribute] = "packed by a saved-tensor hook"  # to unpack would call user code
            continue
        try:
            value = getattr(node, attribute)
        except RuntimeError as error:  # freed by an earlier backward, or changed since it was saved
            found[attribute] = _lost(str(error))
            continue
        found[attribute] = _text(value)
    return found


def _lost(error: str) -> str:
    """What became of a saved tensor that cannot be had any more, by the error that says so."""
    versions = VERSIONS.search(error)
    if versions:
        return f"overwritten: it was saved at version {versions[2]}, and is at {versions[1]} now"
    if "have already been freed" in error:
        return "freed: an earlier backward let go of it"
    return error.partition(":")[0]


def has_hooks(node: Any, attribute: str) -> bool:
    """True when asking for the saved value would call a hook."""
    raw = getattr(node, attribute.replace("_saved_", "_raw_saved_", 1), None)
    each = raw if isinstance(raw, list | tuple) else (raw,)
    return any(
        getattr(one, "hooks", None) is not None or getattr(one, "unpack_hook", None) is not None
        for one in each
    )


def _text(value: Any) -> str:
    if hasattr(value, "_version"):
        return f"tensor {tuple(value.shape)} {value.dtype}, version {value._version}"
    if isinstance(value, list | tuple) and any(hasattr(one, "_version") for one in value):
        return "; ".join(_text(one) for one in value[:4]) + ("; …" if len(value) > 4 else "")
    return repr(value)[:TEXT_LENGTH]
