import pytest

import labkit as lab
from labkit import nn, optim


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        (lab, "utils"), (nn, "LSTM"), (nn.functional, "grid_sample"), (optim, "LBFGS"),
        (lab.autograd, "forward_ad"), (lab.autograd.graph, "save_on_cpu"), (lab.ones(2), "sort"),
    ],
)  # fmt: skip
def test_what_is_left_out_says_so_and_where_it_is_to_be_had(holder, name):
    with pytest.raises(AttributeError, match=f"{name}.*torch_device"):
        getattr(holder, name)
    assert not hasattr(holder, name)


def test_a_private_name_that_is_not_there_gets_pythons_words():
    with pytest.raises(AttributeError, match=r"has no attribute '_absent'$"):
        nn._absent  # noqa: B018
