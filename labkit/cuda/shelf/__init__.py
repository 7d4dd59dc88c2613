"""The kernel shelf: every rung of `kernels/`, with data to run it on and what must come out."""

from labkit.cuda.shelf import (
    convolutions,
    elementwise,
    hgemm,
    layers,
    reduction,
    sgemm,
    strided_copy,
    transpose,
)
from labkit.cuda.shelf.rung import Problem, Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "elementwise": elementwise.RUNGS,
    "transpose": transpose.RUNGS,
    "reduction": reduction.RUNGS,
    "sgemm": sgemm.RUNGS,
    "hgemm": hgemm.RUNGS,
    "strided_copy": strided_copy.RUNGS,
    **layers.LADDERS,
    **convolutions.LADDERS,
}
"""Op -> its rungs, in order."""

__all__ = ["LADDERS", "Problem", "Rung", "rung"]


def rung(name: str) -> Rung:
    """The rung of that kernel name, such as `transpose_3_padded`.

    Raises   KeyError   there is none
    """
    for rungs in LADDERS.values():
        for one in rungs:
            if one.name == name:
                return one
    raise KeyError(
        f"no rung {name!r}; there are {[one.name for r in LADDERS.values() for one in r]}"
    )
