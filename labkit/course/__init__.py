"""The course: checks that answer back, hints that are earned, claims that are proved.

    from labkit import course
    course.check("tensors.promote", promote)     # raises with the smallest failing case
    course.predict("Is there a graph?", {"yes": "nobody asked for one", "no": "nobody asked"})
    course.checked({"D4-1.1-a": (recorded, {"grad_fn": y.grad_fn})})      # the folded table

How to write a notebook: the docstring of `labkit/course/notebooks.py`; an exercise: that of
`labkit/course/exercise.py`. The names below load on first use, so the command line stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.course.cards import card, progress
    from labkit.course.checked_claims import CheckedClaims, checked
    from labkit.course.checks import check, give_up
    from labkit.course.claims import ClaimBox, ClaimFailed, claim, documents
    from labkit.course.course_map import map  # noqa: A004
    from labkit.course.course_path import CoursePath, path
    from labkit.course.predictions import predict
    from labkit.course.progress_file import reset
    from labkit.course.verdicts import CheckFailed, NotAttempted, Passed
    from labkit.course.written import yours

HOMES = {
    "cards": ["card", "progress"],
    "checked_claims": ["CheckedClaims", "checked"],
    "checks": ["check", "give_up"],
    "claims": ["ClaimBox", "ClaimFailed", "claim", "documents"],
    "course_map": ["map"],
    "course_path": ["CoursePath", "path"],
    "predictions": ["predict"],
    "progress_file": ["reset"],
    "verdicts": ["CheckFailed", "NotAttempted", "Passed"],
    "written": ["yours"],
}
"""Module of this package -> the public names it holds."""

__all__ = [
    "CheckFailed", "CheckedClaims", "ClaimBox", "ClaimFailed", "CoursePath", "NotAttempted",
    "Passed", "card", "check", "checked", "claim", "documents", "give_up", "map", "path", "predict",
    "progress", "reset", "yours",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"labkit.course.{home}"), name)
    raise AttributeError(f"module 'labkit.course' has no attribute {name!r}")
