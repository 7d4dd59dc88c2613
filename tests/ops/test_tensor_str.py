import random

import pytest
import torch

import labkit as lab


def same_text(theirs):
    ours = lab.as_tensor(theirs.detach().numpy())
    assert repr(ours).replace("labkit.", "torch.") == repr(theirs)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12).reshape(3, 4), torch.tensor(2.5), torch.tensor([]), torch.zeros(0, 3),
        torch.tensor([], dtype=torch.int64), torch.tensor([True, False]), torch.arange(3000),
        torch.arange(3000.0).reshape(30, 100), torch.tensor([1e9]), torch.tensor([1e-5, 1.0]),
        torch.tensor([float("nan"), 1, 2.5]), torch.tensor([1.0, float("inf")]),
        torch.tensor([1.0, 10000.0]), torch.tensor([-1, 5], dtype=torch.int8),
        torch.tensor([1 + 2j, -0.5j]), torch.zeros(2, 2, 2, 2, dtype=torch.float64),
        torch.tensor([-0.0, 0.0]), torch.tensor([1e-40]),
    ],
    ids=lambda t: str(tuple(t.shape)) + str(t.dtype),
)  # fmt: skip
def test_the_text_is_torchs(tensor):
    same_text(tensor)


def test_random_tensors_print_alike():
    r = random.Random(5)
    generator = torch.Generator().manual_seed(5)
    for _ in range(200):
        sizes = [r.choice((1, 2, 3, 9)) for _ in range(r.randrange(1, 4))]
        scale = 10.0 ** r.randrange(-6, 9)
        same_text(torch.randn(sizes, generator=generator) * scale)


def test_a_type_numpy_lacks_is_printed_by_value():
    assert repr(lab.tensor([1.5, 2], dtype=lab.bfloat16)) == (
        "tensor([1.5000, 2.0000], dtype=labkit.bfloat16)"
    )
