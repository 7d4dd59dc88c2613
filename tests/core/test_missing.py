import pytest

import labkit as lab
from labkit import nn, optim


@pytest.mark.parametrize(
    ("module", "name"),
    [(lab, "utils"), (nn, "LSTM"), (nn.functional, "grid_sample"), (optim, "LBFGS")],
)
def test_what_is_left_out_says_so_and_where_it_is_to_be_had(module, name):
    with pytest.raises(AttributeError, match=f"{name}.*torch_device"):
        getattr(module, name)


def test_a_private_name_that_is_not_there_gets_pythons_words():
    with pytest.raises(AttributeError, match=r"has no attribute '_absent'$"):
        nn._absent  # noqa: B018
