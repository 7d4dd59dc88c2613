import pytest
import torch

from labkit.pipeline.profiling.host_reads import HostReads


@pytest.mark.parametrize(
    ("asks", "count"),
    [
        (lambda x: bool((x > 1).any()), 1),
        (lambda x: [float(one) for one in x], 4),
        (lambda x: x[x > 1], 1),
        (lambda x: (x > 1).nonzero(), 1),
        (lambda x: x[torch.tensor([0, 2])] + 1, 0),
        (lambda x: torch.where(x > 1, x, 0), 0),
    ],
)
def test_what_python_has_to_know_is_counted(asks, count):
    with HostReads() as reads:
        asks(torch.arange(4.0))
    assert reads.count == count
