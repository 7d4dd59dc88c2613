"""Tensors on the device are tensors: they move, print, index, and say what cannot be shared."""

import numpy as np
import pytest
import torch

import labkit as lab
from labkit import cuda, nn
from labkit.core.device import Device
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.ops import fallback

CUDA = Device("cuda", 0)


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=16 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()


@pytest.fixture(autouse=True)
def counted():
    fallback.reset()
    yield
    fallback.reset()


def test_there_and_back():
    x = lab.arange(6.0).view(2, 3).t()
    for there in (x.to("cuda"), x.cuda(), x.to(Device("cuda")), x.to(lab.zeros(1, device="cuda"))):
        assert (there.device, there.stride(), there.is_cuda) == (CUDA, x.stride(), True)
        assert there.to("cuda") is there
        assert there.cpu().tolist() == x.tolist()
    both = x.to("cuda", lab.float16)
    assert (both.device, both.dtype, both.cpu().tolist()) == (CUDA, lab.float16, x.tolist())
    assert fallback.counts() == {}


def test_gradients_come_back_from_the_device():
    x = lab.ones(3, requires_grad=True)
    (x.cuda() * 2).sum().backward()
    assert (x.grad.device.type, x.grad.tolist()) == ("cpu", [2.0] * 3)
    module = nn.Linear(2, 2).cuda()
    assert {parameter.device for parameter in module.parameters()} == {CUDA}
    assert {parameter.device.type for parameter in module.cpu().parameters()} == {"cpu"}


def test_printing():
    x = lab.tensor([[1.5, -2.0], [float("nan"), 1e6]])
    assert repr(x.cuda()) == repr(x)[:-1] + ", device='cuda:0')"
    assert repr(lab.ones(2, device="cuda", requires_grad=True)) == (
        "tensor([1., 1.], device='cuda:0', requires_grad=True)"
    )
    assert (str(x.cuda()[0, 0].item()), f"{x.cuda()[0, 1]:.1f}") == ("1.5", "-2.0")
    assert fallback.counts() == {}


INDEX = [
    0, (slice(None), 1), (..., None), (slice(1, None), slice(None, None, 2)), -1, (1, 2), (None, 1)
]  # fmt: skip


@pytest.mark.parametrize("index", INDEX, ids=str)
def test_basic_indexing_reads_and_writes_on_the_device(index):
    host = lab.arange(12.0).view(3, 4)
    device = host.clone().cuda()
    assert device[index].tolist() == host[index].tolist()
    assert device[index].device == CUDA
    for x in (host, device):
        x[index] = 5
        x[index] = x[index] * 2
    assert device.tolist() == host.tolist()
    assert fallback.counts() == {}


@pytest.mark.filterwarnings("ignore::labkit.ops.fallback.FallbackWarning")
def test_advanced_indexing_goes_over_the_host_and_is_counted():
    host = lab.arange(12.0).view(3, 4)
    device = host.cuda()
    rows = lab.tensor([2, 0])
    assert device[rows].tolist() == device[rows.cuda()].tolist() == host[rows].tolist()
    assert device[device > 5].tolist() == host[host > 5].tolist()
    device[device > 5] = 0
    assert device.max().item() == 5
    assert fallback.counts()["index"] == 3


def test_random_numbers_follow_a_seed_and_start_again():
    before = fallback.counts()
    lab.manual_seed(7)
    first = [lab.randn(5, device="cuda").tolist(), lab.rand(3, device="cuda").tolist()]
    assert fallback.counts() == before  # drawn on the device
    lab.manual_seed(7)
    assert [lab.randn(5, device="cuda").tolist(), lab.rand(3, device="cuda").tolist()] == first
    assert lab.randn(5, device="cuda").tolist() != first[0]
    lab.manual_seed(7)
    assert lab.randn(5).tolist() != first[0]  # the host has a generator of its own kind
    np.testing.assert_allclose(lab.randn(10_000, device="cuda").cpu().var().item(), 1, atol=0.1)


def test_the_emulators_memory_is_not_shared_with_others():
    x = lab.ones(3, device="cuda")
    assert x.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match=r"the emulator's, .* use Tensor\.cpu\(\)"):
        x.__dlpack__()
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    assert torch.from_dlpack(x.cpu()).tolist() == [1.0] * 3


def test_labkit_shares_with_itself_on_every_device():
    for place in ("cpu", "cuda"):
        x = lab.arange(4.0, device=place)
        y = lab.from_dlpack(x[1:])
        y[0] = 9
        assert (x.tolist(), y.device, y.data_ptr()) == ([0, 9, 2, 3], x.device, x[1:].data_ptr())


def test_a_tensor_that_requires_a_gradient_is_not_exported():
    with pytest.raises(BufferError, match="require gradient"):
        lab.ones(2, requires_grad=True).__dlpack__()
    assert not hasattr(lab.ones(2), "__cuda_array_interface__")


def test_a_gpus_memory_cannot_come_to_the_emulator():
    class OnGpu:
        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(BufferError, match="the emulator's"):
        lab.from_dlpack(OnGpu())
