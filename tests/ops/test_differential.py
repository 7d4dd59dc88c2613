"""The comparison itself: where PyTorch has two answers it accepts both, and no third."""

import torch

import labkit.ops.all  # noqa: F401
from tests.ops.differential import Fuzz

GELU = torch.ops.aten.gelu.default
X = torch.tensor([[1.0, float("inf"), -2.0], [0.5, -0.5, 0.0]], dtype=torch.float16).t()


class Gelu:
    """PyTorch's gelu with other answers in tensors of several elements, as where oneDNN helps."""

    __name__, _overloadname = GELU.__name__, GELU._overloadname

    def __init__(self, change):
        self.change = change

    def __call__(self, x):
        result = GELU(x)
        return self.change(x, result) if x.numel() > 1 else result


def nan_for_infinity(x, result):
    return torch.where(x.isinf(), torch.nan, result)


def failures(operator, **settings):
    fuzz = Fuzz(**settings)
    fuzz(operator, X)
    return fuzz.failures


def test_either_answer_of_pytorchs_loops_is_right():
    assert failures(GELU) == []
    (found,) = failures(Gelu(nan_for_infinity))
    assert "inf" in found
    assert "expected np.float16(nan)" in found
    assert failures(Gelu(nan_for_infinity), pointwise=True) == []


def test_what_onednn_refuses_is_asked_of_pytorchs_own_loops():
    """As on an arm64 without float16 arithmetic."""

    def refused(x, result):
        if torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled():
            raise RuntimeError("could not create a primitive descriptor")
        return result

    assert "answered, where PyTorch raises" in failures(Gelu(refused))[0]
    assert failures(Gelu(refused), pointwise=True) == []


def test_what_every_loop_refuses_stays_refused():
    def refused(x, result):
        raise RuntimeError("not for this type")

    assert len(failures(Gelu(refused), pointwise=True)) == 1


def test_an_answer_of_neither_loop_is_wrong():
    class Wrong(Gelu):
        def __call__(self, x):
            return GELU(x) + 1

    assert len(failures(Wrong(None), pointwise=True)) == 1
