"""Writing where memory is shown twice, or is still to be read: refused where PyTorch refuses."""

import pytest

from tests.beside import assert_beside


def index(m):
    return m.tensor([0, 1, 2])


def repeated(m):
    return m.zeros(1).expand(3)


SHOWN_TWICE = {
    "index_put_": lambda m: repeated(m).index_put_((index(m),), m.ones(3)),
    "masked_fill_": lambda m: repeated(m).masked_fill_(index(m) > 0, 1.0),
    "add_": lambda m: repeated(m).add_(1),
    "exp": lambda m: m.exp(m.ones(3), out=repeated(m)),
}
STILL_READ = {
    "masked_fill_": lambda m, b: b[:3].masked_fill_(b[1:4] > 1, 5.0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", SHOWN_TWICE.values(), ids=SHOWN_TWICE)
def test_memory_that_is_shown_twice(write):
    assert_beside(lambda m: write(m).tolist())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", STILL_READ.values(), ids=STILL_READ)
def test_memory_that_is_still_to_be_read(write):
    assert_beside(lambda m: write(m, m.arange(5.0)).tolist())
