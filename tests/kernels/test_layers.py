"""What the layers' rungs do at the edges of what PyTorch accepts."""

import numpy as np
import pytest

from labkit.cuda.errors import KernelFailure
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.cross_entropy import Case as CrossEntropy


@pytest.mark.parametrize("op", ["cross_entropy", "cross_entropy_backward"])
@pytest.mark.parametrize("target", [-1, 7])
def test_a_target_that_is_no_class_ends_the_kernel(op, target, emulator):
    for rung in LADDERS[op]:
        problem = rung.problem(np.random.default_rng(0), CrossEntropy(5, 7))
        _first_int64(problem)[3] = target
        with pytest.raises(KernelFailure, match="trap"):
            rung.run(problem)
        emulator.reset()


def _first_int64(problem):
    return next(a for a in problem.launches[0].args if getattr(a, "dtype", None) == np.int64)
