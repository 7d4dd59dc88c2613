"""The course: checks that answer back, hints that are earned, claims that are proved.

    from labkit import course
    course.check("tensors.promote", promote)     # raises with the smallest failing case
    course.predict("Is there a graph?", {"yes": "nobody asked for one", "no": "nobody asked"})
    course.machine()                             # what your accepted answers are parts of
    course.checked({"D4-1.1-a": (recorded, {"grad_fn": y.grad_fn})})      # the folded table

How to write a notebook: the docstring of `labkit/course/chapters/notebooks.py`; an exercise: that
of `labkit/course/exercise.py`. The names below load on first use: the command line stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.course.benches.step_log import step_log
    from labkit.course.benches.two_ranks import on_two
    from labkit.course.checked_claims import checked
    from labkit.course.checks import check
    from labkit.course.claims import documents
    from labkit.course.conformed import conformance
    from labkit.course.course_path import path
    from labkit.course.predictions import predict
    from labkit.course.written import with_helpers, yours
    from labkit.course.your_machine.page import machine

HOMES = {
    "check": "checks",
    "checked": "checked_claims",
    "conformance": "conformed",
    "documents": "claims",
    "machine": "your_machine.page",
    "on_two": "benches.two_ranks",
    "path": "course_path",
    "predict": "predictions",
    "step_log": "benches.step_log",
    "with_helpers": "written",
    "yours": "written",
}
"""Public name -> the module of this package that holds it."""

__all__ = [
    "check",
    "checked",
    "conformance",
    "documents",
    "machine",
    "on_two",
    "path",
    "predict",
    "step_log",
    "with_helpers",
    "yours",
]


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(importlib.import_module(f"labkit.course.{HOMES[name]}"), name)
    raise AttributeError(f"module 'labkit.course' has no attribute {name!r}")
