"""Dispatch of PyTorch's operators is predicted for the device under its new name too."""

import torch

from tests.torch_device.apart import apart


@apart
def test_a_factory_names_its_backend_by_the_device():
    from labkit.dispatch import torch_operator
    from labkit.dispatch.explain.predict import predict

    op, given = torch.ops.aten.empty.memory_format, {"device": torch.device("lab")}
    hops = predict(
        torch_operator.view(op, ([2],), given), torch_operator.situation(op, ([2],), given)
    )
    assert [hop.slot.name for hop in hops] == ["BackendSelect", "PrivateUse1"]
