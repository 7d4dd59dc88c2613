"""What was recorded of an operator leaves nothing behind."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.dispatch.torch_recording import recording_torch


@pytest.mark.parametrize("name", ["aten::sum.dim_IntList", "aten::empty_like", "aten::sigmoid"])
def test_fake_tensors_find_their_kernel_again(name):
    x = torch.ones(2, 3)
    calls = {"sum": lambda t: t.sum(0), "empty_like": torch.empty_like, "sigmoid": torch.sigmoid}
    call = calls[name.removeprefix("aten::").partition(".")[0]]
    with recording_torch(name) as runs:
        call(x)
        call(x.to("meta"))
    assert {run.slot.name for run in runs} >= {"CPU", "Meta"}
    with FakeTensorMode():
        for device in ("cpu", "cuda"):
            fake = call(torch.ones(2, 3, device=device))
            assert fake.device.type == device
    assert call(x.to("meta")).device.type == "meta"
