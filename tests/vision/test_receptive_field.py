"""What an output sees: the trunks of random networks against where gradients arrive."""

import random

import pytest
import torch
from torch.nn import functional as F

from labkit.vision import Branches, Field, Window, receptive_field
from tests.seeds import seeds


def window(rng, stride=0):
    return Window(rng.randint(1, 4), stride or rng.randint(1, 2), rng.randint(0, 2), 1)


def trunk(rng):
    """Windows, and residual blocks: the branch keeps the size, with and without a shortcut."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        stride, dilation = rng.randint(1, 2), rng.randint(1, 2)
        branch = [Window(3, stride, dilation, dilation), Window(3, 1, 1)]
        around = [Window(1, 2)] if stride == 2 else []
        parts.append(rng.choice([window(rng), Branches(branch, around)]))
    return parts


def run(parts, x):
    for part in parts:
        if isinstance(part, Branches):
            x = run(part.one, x) + run(part.other, x)
        else:
            kernel, stride, padding, dilation = part
            x = F.conv1d(x, torch.ones(1, 1, kernel).double(), None, stride, padding, dilation)
    return x


@pytest.mark.parametrize("seed", seeds(20))
def test_it_is_where_the_gradient_of_one_output_arrives(seed):
    parts = trunk(random.Random(seed))
    x = torch.zeros(1, 1, 400, dtype=torch.float64, requires_grad=True)
    y = run(parts, x)
    seen = receptive_field(parts)
    for place in (y.shape[2] // 2, y.shape[2] // 2 + 1):
        (dx,) = torch.autograd.grad(y[0, 0, place], x, retain_graph=True)
        reached = dx[0, 0].nonzero().view(-1).tolist()
        first = place * seen.stride + seen.first
        assert (reached[0], reached[-1]) == (first, place * seen.stride + seen.last)
        assert seen.size == reached[-1] - reached[0] + 1


def test_no_window_sees_one_element():
    assert receptive_field([]) == Field(0, 0, 1)
    assert receptive_field([]).size == 1


def test_branches_that_do_not_meet_are_refused():
    with pytest.raises(ValueError, match="step by 2 and by 1 do not meet"):
        receptive_field([Branches([Window(3, 2, 1)], [])])
