"""Reference counts alone free a graph: no call leaves objects that hold each other."""

import gc

import pytest

import labkit as lab

PROGRAMS = {
    "mul": lambda x: x * x,
    "exp": lambda x: x.exp(),
    "sum": lambda x: x.sum(),
    "sum of a dimension": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "min of a dimension": lambda x: x.min(0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "view": lambda x: x[1:],
    "in place": lambda x: x.clone().mul_(2),
    "backward": lambda x: (x * x).exp().sum().backward(),
    "hook": lambda x: (x * 2).register_hook(lambda grad: grad),
    "written view": lambda x: x.clone()[1:].mul_(2),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_call_leaves_no_cycle(program):
    program(lab.ones(3, requires_grad=True))  # what is made once, at the first call, stays
    gc.disable()
    gc.freeze()  # what other tests left is not looked at
    try:
        program(lab.ones(3, requires_grad=True))
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
