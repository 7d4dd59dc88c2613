"""A call through the dispatcher: bits of key sets, hops, and the table with a reason per cell."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.dispatch.dispatch_picture import hops_picture, slot_rows, table_picture

PAGES = ("call", "table", "what-if")
BELOW_SHOWN = 80

Data = Mapping[str, Any]


class DispatchView(LabWidget):
    """Steps through the hops of a call in several contexts, and through the rules of a table.

    keys   `functionalities` (weakest first: bit 16 + place), `backends` (bit = place) and
           `per_backend` (the functionalities with a slot per backend)
    table  `operator`, `side`, `schema`, `registrations`, `cells` (one per slot, in table order),
           `stale`, `masks` (per backend, the word without what falls through), and `asked` (per
           cell, the questions put to it, the last of which decided)
    calls  one mapping per context: `context`, `label`, `hops`, `steps`, `recorded`, `agrees`,
           `complete`, `below`, `note`, `raised`. Entries that end in `bits` are words of up to 62
           bits, sent as text: a JavaScript number would round them.
    left_out  context -> why the call cannot be made in it
    find   text -> operator names; load: name -> the table of that operator. With both, the table
           page searches while Python is there.

    Raises   ValueError   neither slots nor key names fit together
    """

    parts: ClassVar[tuple[str, ...]] = (
        "dispatch/dispatch_bits.js",
        "dispatch/dispatch_matrix.js",
        "dispatch/dispatch_call.js",
        "dispatch/dispatch_what_if.js",
        "dispatch/dispatch_search.js",
        "dispatch/dispatch_rules.js",
        "dispatch/dispatch_cells.js",
    )

    bit_names = traitlets.Dict().tag(sync=True)
    calls: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    left_out = traitlets.Dict().tag(sync=True)
    context = traitlets.Int(0, help="index of the call shown").tag(sync=True)
    page = traitlets.Enum(PAGES, "call").tag(sync=True)
    cell = traitlets.Int(1, help="index of the slot whose cell is shown").tag(sync=True)
    rule = traitlets.Int(0, help="step in the rules asked about the cell").tag(sync=True)
    searches = traitlets.Bool(False, help="an operator can be searched for").tag(sync=True)
    query = traitlets.Unicode("", help="part of an operator's name").tag(sync=True)
    found = traitlets.Dict({"query": "", "names": []}, help="the names that answer it").tag(
        sync=True
    )
    shown = traitlets.List(
        traitlets.Int(), help="indices of the slots of a small view; none: all slots"
    ).tag(sync=True)
    simple = traitlets.Bool(False, help="only which slots have a kernel").tag(sync=True)
    wanted = traitlets.Unicode("", help="the operator to show").tag(sync=True)

    def __init__(
        self,
        keys: Mapping[str, Sequence[str]],
        table: Data,
        calls: Sequence[Data] = (),
        left_out: Mapping[str, str] | None = None,
        find: Callable[[str], list[str]] | None = None,
        load: Callable[[str], Data] | None = None,
        **kwargs: Any,
    ) -> None:
        slots = sum(len(slots) for _, slots in slot_rows(keys))
        if len(table["cells"]) != slots:
            raise ValueError(
                f"the table of {table['operator']} has {len(table['cells'])} cells, but the keys "
                f"make {slots} slots"
            )
        self._find, self._load = find, load
        super().__init__(
            bit_names={name: list(values) for name, values in keys.items()},
            table=_packed(table),
            calls=[_call(call) for call in calls],
            left_out=dict(left_out or {}),
            page=kwargs.pop("page", "call" if calls else "table"),
            searches=find is not None and load is not None,
            **kwargs,
        )
        self.observe(self._search, names="query")
        self.observe(self._show_operator, names="wanted")

    def _search(self, change: Data) -> None:
        if self._find is not None and change["new"]:
            self.found = {"query": change["new"], "names": self._find(change["new"])}

    def _show_operator(self, change: Data) -> None:
        if self._load is not None and change["new"] and change["new"] != self.table["operator"]:
            self.table = _packed(self._load(change["new"]))
            self.rule = 0

    def step_texts(self) -> list[str]:
        if not self.calls:
            return []
        return [
            step["text"] for step in self.calls[min(self.context, len(self.calls) - 1)]["steps"]
        ]

    def summary(self) -> str:
        """The operator, and its hops in the context shown or what its table holds."""
        if not self.calls:
            cells = self.table["cells"]
            cells = [cells[slot] for slot in self.shown] or cells
            filled = sum(bool(self.table["texts"][cell["kernel"]]) for cell in cells)
            stale = "; stored table stale" if self.table["stale"] else ""
            return f"{self.table['operator']}: {len(cells)} slots, {filled} filled{stale}"
        call = self.calls[min(self.context, len(self.calls) - 1)]
        hops = " -> ".join(hop["slot"] for hop in call["hops"])
        return f"{self.table['operator']}, {call['label']}: {hops}"

    def svg(self) -> str:
        """The hops of the context shown as a table; without a call, the table's slots."""
        if not self.calls:
            return table_picture(self.table, self.bit_names, repr(self), self.shown)
        return hops_picture(self.calls[min(self.context, len(self.calls) - 1)], repr(self))


def _call(call: Data) -> dict[str, Any]:
    below = list(call.get("below") or ())
    return {
        "context": call["context"],
        "label": call.get("label", call["context"]),
        "hops": [_as_text(hop) for hop in call["hops"]],
        "steps": [
            {name: value for name, value in _as_text(step).items() if name != "keys"}
            for step in call["steps"]
        ],
        "recorded": None
        if call.get("recorded") is None
        else [_as_text(run) for run in call["recorded"]],
        "agrees": call.get("agrees"),
        "complete": call.get("complete", True),
        "below": below[:BELOW_SHOWN],
        "below_more": max(0, len(below) - BELOW_SHOWN),
        "note": call.get("note", ""),
        "raised": call.get("raised"),
    }


def _as_text(data: Any) -> Any:
    """The same with every word of bits as decimal text."""
    if isinstance(data, Mapping):
        return {
            name: _words(value) if name.endswith("bits") else _as_text(value)
            for name, value in data.items()
        }
    return [_as_text(item) for item in data] if isinstance(data, list | tuple) else data


def _words(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [str(word) for word in value]
    return None if value is None else str(value)


def _packed(table: Data) -> dict[str, Any]:
    """The table with every text once: its cells repeat a few kernels and questions many times."""
    place: dict[str, int] = {"": 0}

    def put(text: str | None) -> int:
        return place.setdefault(text or "", len(place))

    cells = [
        {
            "slot": cell["slot"],
            "kernel": put(cell["kernel"]),
            "reason": put(cell["reason"]),
            "rule": cell["rule"],
            "source": put(cell["source"]),
            "fallthrough": bool(cell["fallthrough"]),
            "stored": None if cell["stored_kernel"] is None else put(cell["stored_kernel"]),
            "stale": bool(cell["stale"]),
            "asked": [put(question) for question in asked],
        }
        for cell, asked in zip(table["cells"], table["asked"], strict=True)
    ]
    return {
        "operator": table["operator"],
        "side": table["side"],
        "schema": table["schema"],
        "registrations": [dict(entry) for entry in table["registrations"]],
        "stale": bool(table["stale"]),
        "masks": [str(mask) for mask in table["masks"]],
        "rules": {str(number): text for number, text in table["rules"].items()},
        "cells": cells,
        "texts": list(place),
    }
