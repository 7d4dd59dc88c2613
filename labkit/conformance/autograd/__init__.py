"""Autograd, compared with the installed PyTorch.

lockstep, opinfo   PyTorch's samples of its operators: values, graphs, gradients
order              the order in which backward runs random graphs
programs           views, in-place writes, hooks, grad modes
chained_views      views of views that may not be written, word for word
training           random modules, trained
"""

from collections.abc import Iterator

from labkit.autograd.variables.views import propagated
from labkit.conformance.autograd import chained_views, opinfo, order, programs, training
from labkit.conformance.report import Comparison, Size

NOT_MODELLED = (
    "the entries of op_db named above: labkit has no such operator, or not this case of it",
    "samples that are not float64 (int64 or bool where an entry has no float64)",
    "complex, sparse, quantized and nested tensors; lazy conjugates",
    "gradients of as_strided_scatter, which PyTorch 2.13 gives to overwritten elements",
    "the wording of most errors: class and kind are compared",
    "hooks that a view's history calls before it is made again: PyTorch itself crashes there",
)


SYSTEM = "propagated"
"""What another rule is called in a file that is compared in place of labkit's."""


def compare(
    seed: int, size: Size, only: str = "", system: chained_views.Rule = propagated
) -> Iterator[Comparison]:
    """All five comparisons.

    only     the name of one entry of op_db, "nn.functional.relu": nothing else is asked
    system   what a view of a view carries; of another rule than labkit's the programs are asked
    """
    if system is not propagated:
        with chained_views.views_by(system):
            yield from chained_views.compare(seed, size)
            yield from programs.compare(seed, size)
        return
    yield from opinfo.compare(seed, size, only)
    if not only:
        yield from order.compare(seed, size)
        yield from programs.compare(seed, size)
        yield from chained_views.compare(seed, size)
        yield from training.compare(seed, size)
