"""What the layers' rungs do at the edges of what PyTorch accepts."""

import numpy as np
import pytest
import torch

from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.pooling import MAX_CASES, PROBE
from labkit.cuda.shelf.softmax import Case as Softmax


def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize("rung", LADDERS["softmax"], ids=lambda rung: rung.name)
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_infinities_and_nan_is_pytorchs(rung, log):
    problem = rung.problem(generator(), Softmax(5, 200, log=log))
    x = problem.inputs[0]
    x[0] = -np.inf
    x[1, 150] = np.inf
    x[2, 3] = np.nan
    x[3] = 3e38
    x[4, 1:] = -np.inf
    function = torch.log_softmax if log else torch.softmax
    problem.expected = function(torch.from_numpy(x).double(), 1).numpy()
    rung.run(problem)
    problem.check()
    assert np.isnan(problem.output[:3]).all()


@pytest.mark.parametrize("case", [PROBE, MAX_CASES[2], MAX_CASES[4]], ids=str)
def test_the_expected_gradient_of_max_pooling_is_autograds(case):
    rung = LADDERS["max_pool2d_backward"][0]
    problem = rung.problem(generator(), case)
    x = np.round(2 * generator().standard_normal((case.planes, *case.size)))  # as the problem's
    x = torch.from_numpy(x).requires_grad_()
    y = torch.nn.functional.max_pool2d(x[:, None], *case[2:6], ceil_mode=case.ceil_mode)[:, 0]
    (expected,) = torch.autograd.grad(y, x, torch.from_numpy(problem.inputs[0]).double())
    np.testing.assert_allclose(problem.expected, expected.numpy(), atol=1e-12)
