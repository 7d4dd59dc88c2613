"""Backward as events: which node runs, what goes along which edge, what a leaf's grad becomes."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.core.strides import storage_nbytes
from labkit.show.backward.autograd_walk import Walk
from labkit.show.heat import NUMBERS_ON_AN_EDGE, heat_map, in_words
from labkit.show.step.record import Phase, Recording

MOST_ELEMENTS = 1024
"""Of a gradient whose numbers are kept."""

Array = np.ndarray[Any, Any]
ReadLater = Callable[[int, int], Array | None]
"""(address, bytes) -> bytes that are there once the step is over; None where nobody reads them."""


@dataclass
class Gradient:
    """What is kept of a gradient: `elements` are right when the device has come to its place."""

    shape: tuple[int, ...]
    elements: Array | None


class Gradients:
    """What both engines tell, as events of one recording.

    walk    the graph
    values  event -> the gradient it is about
    error   what left the engine, if anything did
    """

    def __init__(self, recording: Recording, walk: Walk, read_later: ReadLater) -> None:
        self.recording, self.walk = recording, walk
        self.values: dict[int, Gradient] = {}
        self.error = ""
        self._read_later = read_later
        self._outer: list[tuple[Phase, int]] = []

    @property
    def running(self) -> int:
        """The node that this thread runs."""
        return self.recording.runs_in.get(threading.get_ident(), -1)

    def begins(self) -> None:
        """A backward call begins, perhaps inside another."""
        recording = self.recording
        self._outer.append((recording.phase, recording.outer_line))
        recording.phase = "backward"
        recording.outer_line = recording.lines.running()
        recording.tick("backward", f"backward begins: {len(self.walk.order)} nodes can be reached")

    def ends(self) -> None:
        """The call is over."""
        recording = self.recording
        before, recording.outer_line = self._outer.pop()
        recording.runs_in.clear()
        recording.phase = before if self._outer else "update"

    def runs(self, place: int) -> None:
        """The node is the one that runs on this thread."""
        self.recording.settle()
        self.recording.runs_in[threading.get_ident()] = place
        if place >= 0:
            self.recording.tick("node runs", f"{self._name(place)} runs")

    def arrives(self, edge: int, target: int, value: Gradient) -> None:
        """A gradient has come along the edge."""
        text = f"a gradient of shape {value.shape} goes to {self._name(target)}"
        event = self.recording.tick("gradient", text, edge=edge, came=str(value.shape))
        self.values[event] = value

    def accumulated(self, place: int, value: Gradient | None, how: str) -> None:
        """The leaf's gradient is set, or has grown."""
        leaf = self._name(place).removeprefix("AccumulateGrad ")
        does = "becomes" if how == "set" else "grows by"
        event = self.recording.tick("accumulation", f"{leaf}.grad {does} what arrived", node=place)
        if value is not None:
            self.values[event] = value

    def fails(self, error: str) -> None:
        """The error has left the engine."""
        self.error = error
        self.recording.tick("error", error)
        self.ends()

    def gradient(
        self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: str, device: str
    ) -> Gradient:
        """What is kept of a tensor at this address; the numbers of a large one are not.

        strides  in elements
        dtype    its name, with or without a library before it
        """
        kind, sizes = dtype.rpartition(".")[2], tuple(shape)
        if kind not in ("float32", "float64") or not 0 < np.prod(sizes) <= MOST_ELEMENTS:
            return Gradient(sizes, None)
        element = np.dtype(kind)
        nbytes = storage_nbytes(sizes, tuple(strides), element.itemsize)
        held: Array | None
        if device == "cpu":
            held = np.frombuffer(ctypes.string_at(address, nbytes), np.uint8)
        else:
            held = self._read_later(address, nbytes)
        if held is None:
            return Gradient(sizes, None)
        steps = [stride * element.itemsize for stride in strides]
        return Gradient(sizes, np.ndarray(sizes, element, held.data, strides=steps))

    def heats(self) -> dict[int, dict[str, Any]]:
        """Event -> a heat map of its gradient; right when the device has done everything."""
        found = {}
        for event, value in self.values.items():
            if value.elements is None:
                continue
            numbers = value.elements.reshape(-1).tolist()
            found[event] = heat_map("gradient", value.shape, numbers)
            if len(numbers) <= NUMBERS_ON_AN_EDGE:
                self.recording.events[event].came = in_words(numbers)
        return found

    def _name(self, place: int) -> str:
        return self.walk.names()[place] if place >= 0 else "GraphRoot"
