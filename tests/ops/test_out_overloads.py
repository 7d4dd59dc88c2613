import random

import pytest
import torch

import labkit.ops.all  # noqa: F401
from tests.ops.differential import Fuzz, random_tensor

A = torch.ops.aten
CALLS = {
    A.sum.IntList_out: ([0],), A.mean.out: ([-1],), A.amax.out: ([0],),
    A.argmax.out: (0,), A.any.out: (0,), A.all.all_out: (), A.var.correction_out: ([0],),
    A.cumsum.out: (0,),
    A.linalg_vector_norm.out: (2, [0]), A.norm.out: (2, [0]), A.tril.out: (), A.triu.out: (1,),
    A.count_nonzero.out: (), A.max.unary_out: (),
    A.std.out: ([0],),
}  # fmt: skip
SEVERAL = {
    A.max.dim_max: (("max", "max_values"), (0,)), A.min.dim_min: (("min", "min_indices"), (0,)),
    A.sort.values: (("values", "indices"), ()),
}  # fmt: skip
FACTORIES = {
    A.zeros.out: ([2, 3],), A.full.out: ([3], 2), A.eye.m_out: (2, 3), A.arange.out: (5,),
    A.linspace.out: (0, 1, 7), A.ones.out: ([0],), A.arange.start_out: (1, 9, 2),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_results_are_written_where_the_caller_wants_them():
    r = random.Random(1)
    fuzz = Fuzz()
    for _ in range(3):
        for operator, args in CALLS.items():
            x = random_tensor(r, torch.float64, [3, 4], special=False)
            whole = operator in (A.argmax.out, A.count_nonzero.out)
            truth = operator in (A.any.out, A.all.all_out)
            dtype = torch.int64 if whole else torch.bool if truth else torch.float64
            for sizes in ((0,), (7,)):
                fuzz(operator, x, *args, out=torch.zeros(sizes, dtype=dtype))
        for operator, (names, args) in SEVERAL.items():
            x = random_tensor(r, torch.float64, [3, 4], special=False)
            outs = [torch.zeros(0, dtype=kind) for kind in (torch.float64, torch.int64)]
            fuzz(operator, x, *args, **dict(zip(names, outs, strict=True)))
    for operator, args in FACTORIES.items():
        fuzz(operator, *args, out=torch.zeros(4))
    assert fuzz.answered > 100
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


def test_a_result_that_cannot_be_cast_is_refused():
    x = torch.ones(3)
    fuzz = Fuzz()
    fuzz(A.amax.out, x, [0], out=torch.zeros(0, dtype=torch.int64))
    fuzz(A.max.unary_out, x, out=torch.zeros(0, dtype=torch.int64))
    assert fuzz.refused == 2
    assert not fuzz.failures
