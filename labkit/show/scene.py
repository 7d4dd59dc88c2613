"""Collects views into the plain data a StrideView draws: memory grouped, values packed."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from labkit.show.views import Bytes, Memory, View, decode
from labkit.widgets.base import pack_columns
from labkit.widgets.strides.stride_picture import formatted
from labkit.widgets.strides.stride_view import StrideView

MAX_CELLS_WITH_VALUES = 65_536
"""Beyond this a storage is drawn with addresses only: a saved notebook would grow by megabytes."""


class Scene:
    """Storages and tensors, each known by its place; a tensor seen again keeps its place.

    Two names of one tensor have one place.
    """

    def __init__(self) -> None:
        self.storages: list[dict[str, Any]] = []
        self.views: list[dict[str, Any]] = []
        self.moments: list[dict[int, Bytes]] = []  # the bytes of each storage, per `add`
        self._extents: list[tuple[int, int, set[Any]]] = []  # first byte, end, owners
        self._places: dict[str, int] = {}
        self._present: dict[int, int] = {}  # identity -> place, of the last moment
        self._handles: list[Any] = []  # no address may serve two storages of one scene

    def add(self, views: Sequence[View], names: Sequence[str]) -> list[int]:
        """Add views that exist at one moment, with the bytes they see; returns their places."""
        places: list[int] = []
        present: dict[int, int] = {}
        taken = {place for view in views if (place := self._kept(view)) is not None}
        for view, name in zip(views, names, strict=True):
            place = present.get(view.identity) if view.identity is not None else None
            if place is None:
                place = self._place_of(view, name, [other.memory for other in views], taken)
                taken.add(place)
            else:
                self._also(place, name)
            if view.identity is not None:
                present[view.identity] = place
            places.append(place)
        self._present = present
        moment = {}
        for view, place in zip(views, places, strict=True):
            storage, memory = self.views[place]["storage"], view.memory
            if storage not in moment and memory.read and self._covers(memory, storage):
                moment[storage] = memory.read()
        self.moments.append(moment)
        return places

    def _kept(self, view: View) -> int | None:
        """The place the same tensor had a moment ago."""
        return None if view.identity is None else self._present.get(view.identity)

    def _place_of(
        self, view: View, name: str, together: Sequence[Memory], taken: Collection[int]
    ) -> int:
        """The place it had a moment ago, or a tensor of its name and layout had, or a new one."""
        storage = self._storage_of(view.memory, together)
        behind = view.memory.address - self._extents[storage][0]
        entry = {
            "storage": storage, "dtype": view.dtype, "itemsize": view.itemsize,
            "sizes": list(view.sizes), "strides": list(view.strides), "offset": view.offset,
            "base": behind if view.memory.address else 0,
        }  # fmt: skip
        before, called = self._kept(view), f"{name} {entry}"
        if before is not None and entry.items() <= self.views[before].items():
            self._places[called] = before
        elif self._places.get(called) in (None, *taken):
            self._places[called] = len(self.views)
            self.views.append({"name": name, **entry, "version": view.version})
        return self._places[called]

    def _also(self, place: int, name: str) -> None:
        """The tensor has one more name, unless a moment before it had it too."""
        known = self.views[place].setdefault("names", [self.views[place]["name"]])
        if name not in known:
            known.append(name)

    def _covers(self, memory: Memory, storage: int) -> bool:
        start, end, _ = self._extents[storage]
        few = memory.nbytes <= 16 * MAX_CELLS_WITH_VALUES
        return few and memory.nbytes == end - start

    def _storage_of(self, memory: Memory, together: Sequence[Memory]) -> int:
        """The place of the storage those bytes belong to: one for all that overlap."""
        for place, (start, end, owners) in enumerate(self._extents):
            present = any(other.owner in owners for other in together)  # not freed since
            inside = memory.address and start <= memory.address < end and present
            if inside or (memory.owner in owners and memory.nbytes == end - start):
                owners.add(memory.owner)
                return place
        start, end, owners = memory.address, memory.address + memory.nbytes, {memory.owner}
        touching = [other for other in together if other.address and memory.address]
        for _ in touching:  # a chain of overlaps is no longer than the list
            for other in touching:
                if other.address < end and start < other.address + other.nbytes:
                    start = min(start, other.address)
                    end = max(end, other.address + other.nbytes)
                    owners.add(other.owner)
        notes = [memory.note, f"{len(owners)} owners share these bytes" if len(owners) > 1 else ""]
        place = len(self.storages)
        self._extents.append((start, end, owners))
        self._handles.append(memory.handle)
        self.storages.append({
            "name": chr(ord("A") + place) if place < 26 else f"A{place}", "nbytes": end - start,
            "use_count": memory.use_count if len(owners) == 1 else None,
            "note": ", ".join(filter(None, notes)),
        })  # fmt: skip
        return place

    def dtypes_of(self, storage: int) -> list[str]:
        """The dtypes a storage's bytes are read as; the cells' own first."""
        mine = [view["dtype"] for view in self.views if view["storage"] == storage]
        return list(dict.fromkeys([self.storages[storage]["dtype"], *mine]))

    def widget(self, **more: Any) -> StrideView:
        """The StrideView of everything added, with the values of each storage's first moment."""
        columns: dict[str, Any] = {}
        texts: dict[str, list[str]] = {}
        for place, store in enumerate(self.storages):
            self._choose_cells(place, store)
            raw = next((moment[place] for moment in self.moments if place in moment), None)
            if store["nbytes"] // store["unit"] > MAX_CELLS_WITH_VALUES:
                said = f"values are shown up to {MAX_CELLS_WITH_VALUES:,} cells"
                store["note"] = ", ".join(filter(None, [store["note"], said]))
                continue
            if raw is None:
                continue
            for dtype in self.dtypes_of(place):
                elements = decode(raw, dtype)
                if isinstance(elements, list):
                    texts[f"{place}:{dtype}"] = elements
                elif elements is not None:
                    columns[f"{place}:{dtype}"] = elements
        schema, values = pack_columns(columns)
        return StrideView(
            storages=self.storages, views=self.views, schema=schema, values=values, texts=texts,
            **more,
        )  # fmt: skip

    def _choose_cells(self, place: int, store: dict[str, Any]) -> None:
        """A cell is the largest piece that every view's elements are made of."""
        mine = [view for view in self.views if view["storage"] == place]
        unit = math.gcd(*(view["itemsize"] for view in mine), *(view["base"] for view in mine))
        fitting = [view["dtype"] for view in mine if view["itemsize"] == unit]
        store["unit"], store["dtype"] = unit, fitting[0] if fitting else "uint8"
        if not fitting:
            store["unit"] = 1


def written_texts(raw: Bytes, dtype: str) -> list[str]:
    """The elements of those bytes as the cells write them."""
    elements = decode(raw, dtype)
    if elements is None:
        return []
    if isinstance(elements, list):
        return elements
    return [formatted(value, dtype) for value in elements.tolist()]
