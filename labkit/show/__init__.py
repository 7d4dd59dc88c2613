"""Turns labkit, torch and NumPy objects into the plain data that widgets draw."""

from labkit.show.backward import backward
from labkit.show.bars import bars
from labkit.show.broadcast import broadcast
from labkit.show.code import code, torch_file
from labkit.show.compile import compile  # noqa: A004  (show.compile reads as what it is)
from labkit.show.dispatch import dispatch, dispatch_table
from labkit.show.graph import graph
from labkit.show.holders import holders
from labkit.show.kernel import kernel
from labkit.show.law import ladder, law
from labkit.show.memory import memory
from labkit.show.operators import rewrite
from labkit.show.pictures import pictures
from labkit.show.source_map import source_map
from labkit.show.streams import streams
from labkit.show.strides import strides
from labkit.show.tiles import tiles
from labkit.show.timeline import timeline
from labkit.show.training_step import training_step

__all__ = [
    "backward",
    "bars",
    "broadcast",
    "code",
    "compile",
    "dispatch",
    "dispatch_table",
    "graph",
    "holders",
    "kernel",
    "ladder",
    "law",
    "memory",
    "pictures",
    "rewrite",
    "source_map",
    "streams",
    "strides",
    "tiles",
    "timeline",
    "torch_file",
    "training_step",
]
