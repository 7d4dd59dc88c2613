"""Autograd, compared with the installed PyTorch.

lockstep, opinfo   PyTorch's samples of its operators: values, graphs, gradients
order              the order in which backward runs random graphs
programs           views, in-place writes, hooks, grad modes
training           random modules, trained
"""

from collections.abc import Iterator

from labkit.conformance.autograd import opinfo, order, programs, training
from labkit.conformance.report import Comparison, Size

NOT_MODELLED = (
    "the entries of op_db named above: labkit has no such operator, or not this case of it",
    "samples that are not float64 (int64 or bool where an entry has no float64)",
    "complex, sparse, quantized and nested tensors; lazy conjugates",
    "gradients of as_strided_scatter, which PyTorch 2.13 gives to overwritten elements",
    "the wording of most errors: class and kind are compared",
    "hooks that a view's history calls before it is made again: PyTorch itself crashes there",
)


def compare(seed: int, size: Size, only: str = "") -> Iterator[Comparison]:
    """All four comparisons.

    only   the name of one entry of op_db, "nn.functional.relu": nothing else is asked
    """
    yield from opinfo.compare(seed, size, only)
    if not only:
        yield from order.compare(seed, size)
        yield from programs.compare(seed, size)
        yield from training.compare(seed, size)
