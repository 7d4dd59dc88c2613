"""Copies, conversions and fills stay on the device, in every layout."""

import random
import warnings

import numpy as np
import pytest

import labkit as lab
from labkit import cuda
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.ops import fallback


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=16 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()


@pytest.fixture(autouse=True)
def nothing_falls_back():
    fallback.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.FallbackWarning)
        yield
    fallback.reset()


LAYOUTS = [
    lambda x: x, lambda x: x.permute(2, 0, 1), lambda x: x[:, ::2], lambda x: x[..., 1],
    lambda x: x[0, 1, 2], lambda x: x[:, :1].expand(3, 40, 5), lambda x: x.transpose(0, 1)[3:],
    lambda x: x[:0],
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "complex64"])
def test_any_layout_to_any_other_unread(dtype):
    rng = random.Random(dtype)
    x = lab.arange(600).view(3, 40, 5).to(getattr(lab, dtype))
    for layout in LAYOUTS:
        host, device = layout(x), layout(x.to("cuda"))
        np.testing.assert_array_equal(device.clone().cpu().numpy(), host.numpy())
        np.testing.assert_array_equal(device.contiguous().cpu().numpy(), host.numpy())
        order = rng.sample(range(host.dim()), host.dim())
        made = lab.empty([host.shape[d] for d in order], dtype=host.dtype, device="cuda")
        turned = made.permute([order.index(d) for d in range(host.dim())])
        turned.copy_(device)
        np.testing.assert_array_equal(turned.cpu().numpy(), host.numpy())
    assert fallback.counts() == {}


def test_the_bits_of_nan_survive():
    bits = lab.tensor([0x7FC12345, -0x3FFFFF, 0x7F800001], dtype=lab.int32)
    copied = bits.to("cuda").view(lab.float32).view(3, 1).expand(3, 2).contiguous()
    assert copied.cpu().view(lab.int32)[:, 1].tolist() == bits.tolist()


@pytest.mark.parametrize("target", ["float16", "int32", "bool", "float64", "bfloat16"])
def test_conversions(target):
    x = lab.tensor([[0.0, 1.5, -2.75], [100.0, 0.1, 7.0]])
    dtype = getattr(lab, target)
    answer = x.to("cuda").t().to(dtype)
    assert (answer.dtype, answer.tolist()) == (dtype, x.t().to(dtype).tolist())


def test_fills():
    x = lab.zeros(3, 4, device="cuda")
    x[:, 1:3].fill_(2.5)
    x[1].zero_()
    assert x.tolist() == [[0, 2.5, 2.5, 0], [0] * 4, [0, 2.5, 2.5, 0]]
    assert lab.full((2,), True, device="cuda").tolist() == [True, True]
    assert lab.zeros(2, dtype=lab.uint8, device="cuda").fill_(-1).tolist() == [255, 255]
    assert lab.ones(2, dtype=lab.bool, device="cuda").fill_(0.5).tolist() == [True, True]


def test_overlapping_rows_are_refused_and_neighbours_are_not():
    x = lab.arange(6.0, device="cuda")
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])
    x[3:].copy_(x[:3])
    assert x.tolist() == [0, 1, 2, 0, 1, 2]


def test_what_no_kernel_copies_is_said():
    x = lab.tensor([1 + 2j], device="cuda")
    with pytest.warns(fallback.FallbackWarning, match="_to_copy on .* for complex64"):
        assert x.to(lab.complex128).tolist() == [1 + 2j]
    with pytest.warns(fallback.FallbackWarning, match="clone on .* for complex128"):
        assert lab.tensor([1 + 2j], dtype=lab.complex128, device="cuda").clone().tolist() == [
            1 + 2j
        ]
