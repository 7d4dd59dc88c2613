"""The other process ends with the tests: a worker of xdist leaves without its exit functions."""

import pytest

from tests.torch_device import apart


@pytest.fixture(scope="session", autouse=True)
def other_process():
    """The process that `apart` starts is gone when the last test is done."""
    yield
    apart.end()
