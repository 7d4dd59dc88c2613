"""The front door: `import labkit as lab`, and what a reader does with it first."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import labkit as lab
from labkit.core import allocator as allocators
from labkit.core.allocator import DataPtr
from labkit.core.device import Device
from labkit.ops import fallback
from tests.beside import assert_beside


def test_importing_labkit_imports_nothing_large():
    code = "import sys, labkit; print(sorted({'numpy', 'torch', 'labkit.core'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_listed_name_is_there_and_operators_are_listed():
    assert {"zeros", "matmul", "float32", "Tensor", "no_grad", "channels_last"} <= set(dir(lab))
    for name in dir(lab):
        getattr(lab, name)
    with pytest.raises(AttributeError, match="'zeroes'"):
        _ = lab.zeroes


def test_names_are_functions_whatever_was_imported_before():
    import labkit._tensor.factories  # noqa: F401

    assert lab.tensor([1]).tolist() == [1]
    assert lab.dtype is type(lab.float32)
    assert lab.device("cpu") == lab.zeros(1).device


def test_a_tensor_says_what_it_is():
    x = lab.zeros(2, 3, dtype=lab.float64)[:, 1:]
    assert (x.shape, x.stride(), x.storage_offset()) == ((2, 2), (3, 1), 1)
    assert (x.size(-1), x.stride(0), x.numel(), x.dim(), len(x)) == (2, 3, 4, 2, 2)
    assert (x.itemsize, x.nbytes, x.storage().nbytes) == (8, 32, 48)
    assert x.shape.numel() == 4
    with pytest.raises(IndexError, match="but got 2"):
        x.size(2)


def test_numbers_come_out():
    x = lab.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert (int(x[1, 1]), float(x[0, 0]), bool(x[0, 0])) == (4, 1.0, True)
    assert list(range(5))[x[0, 1]] == 2
    assert 3 in x
    assert np.array(x).sum() == 10
    for refused in (lambda: bool(x), lambda: len(x[0, 0]), lambda: iter(x[0, 0])):
        with pytest.raises((RuntimeError, TypeError)):
            refused()


def test_numbers_of_tensors_nest():
    assert lab.tensor([lab.tensor(1), 2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"one element tensors .* \[2\]"):
        lab.tensor([lab.zeros(2), 2])


def test_cuda_is_there_with_or_without_a_card():
    x = lab.arange(12).reshape(3, 4).to("cuda")
    x[1:, ::2] = 5
    assert x.is_cuda
    assert x.device == lab.device("cuda:0")
    assert x.t().contiguous().cpu().tolist() == [[0, 5, 5], [1, 5, 9], [2, 5, 5], [3, 7, 11]]


def test_to_is_the_tensor_itself_when_nothing_changes():
    x = lab.zeros(2, 3)
    assert x.to(lab.float32) is x
    assert x.to("cpu") is x
    assert x.to("cpu:0").device == x.device
    assert x.contiguous() is x
    assert x.to(lab.bfloat16).dtype is lab.bfloat16
    assert x.to(x.to(lab.int8)).dtype is lab.int8
    assert x.to(lab.float32, copy=True) is not x
    with pytest.raises(TypeError, match="3"):
        x.to(3)


def test_the_default_type_is_settable_and_only_floating():
    try:
        lab.set_default_dtype(lab.float64)
        assert lab.tensor([1.0]).dtype is lab.float64
        assert lab.result_type(lab.tensor([1]), 1.5) is lab.float64
    finally:
        lab.set_default_dtype(lab.float32)
    with pytest.raises(TypeError, match="int64"):
        lab.set_default_dtype(lab.int64)


def test_int8_and_a_large_number_stay_int8():
    x = lab.tensor([100], dtype=lab.int8)
    assert (x + 200).dtype is lab.int8
    assert lab.result_type(x, lab.tensor(1)) is lab.int8
    assert lab.result_type(x, 1.5) is lab.float32
    assert lab.result_type(lab.tensor([True]), 1.5) is lab.float32


class Far:
    """A device whose addresses no host code may touch: the bytes are elsewhere."""

    SHIFT = 1 << 52

    def __init__(self):
        self.blocks = {}
        self.copied = 0

    def allocate(self, nbytes):
        if nbytes == 0:
            return DataPtr(0, Device("lab", 0))
        block = ctypes.create_string_buffer(nbytes)
        address = ctypes.addressof(block) + self.SHIFT
        self.blocks[address] = block
        return DataPtr(address, Device("lab", 0), address, self.blocks.pop)

    def copy(self, destination, destination_device, source, source_device, nbytes):
        self.copied += nbytes
        near = [
            address - self.SHIFT * (device.type == "lab")
            for address, device in ((destination, destination_device), (source, source_device))
        ]
        ctypes.memmove(*near, nbytes)


@pytest.fixture
def far(monkeypatch):
    device = Far()
    monkeypatch.setattr(allocators, "_allocators", dict(allocators._allocators))
    monkeypatch.setattr(allocators, "_copies", {})
    allocators.set_allocator("lab", device)
    allocators.register_copy("lab", device.copy)
    return device


def test_a_device_plugs_in_with_an_allocator_and_a_copy_function(far):
    x = lab.arange(12).reshape(3, 4).to("lab")
    assert x.device == Device("lab", 0)
    assert x.data_ptr() in far.blocks
    assert x.t().tolist() == lab.arange(12).reshape(3, 4).t().tolist()
    x[1, ::2] = 50  # a strided write leaves the bytes between alone
    x[[0, 2], [1, 1]] = 60
    x[x.cpu() == 11] = 70
    x[:, 3].zero_()
    expected = [[0, 60, 2, 0], [50, 5, 50, 0], [8, 60, 10, 0]]
    assert x.cpu().tolist() == expected
    assert x[[0, 2]].device == x.device
    assert x.clone().t().contiguous().tolist() == lab.tensor(expected).t().tolist()
    assert repr(x[0]) == "tensor([ 0, 60,  2,  0], device='lab:0')"
    assert far.copied > 0
    del x
    assert not far.blocks


def test_host_code_does_not_touch_device_memory(far):
    x = lab.zeros(3, device="lab")
    with pytest.raises(RuntimeError, match="host code cannot touch memory on lab:0"):
        x.storage().bytes()
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        x.numpy()
    fallback.reset()
    with pytest.warns(fallback.FallbackWarning, match="no kernel runs on device type 'lab'"):
        total = x + x
    assert (str(total.device), total.cpu().tolist()) == ("lab:0", [0, 0, 0])
    assert fallback.counts() == {"add": 1}
    with pytest.raises(RuntimeError, match="at least two devices, lab:0 and cpu"):
        _ = x + lab.zeros(3)
    with pytest.raises(RuntimeError, match="asked for memory on lab:1"):
        lab.zeros(3, device="lab:1")


def test_a_device_nobody_plugged_in_says_how():
    with pytest.raises(RuntimeError, match=r"no allocator serves device type 'lab'.*set_allocator"):
        lab.zeros(3, device="lab")


@pytest.mark.parametrize(
    "text",
    [
        lambda m: f"{m.tensor(1.5)}",
        lambda m: f"{m.tensor(1.5, requires_grad=True):.3f}",
        lambda m: f"{m.tensor(3):04d} {m.tensor(True)}",
        lambda m: f"{m.tensor([1.0, 2.0])}",
        lambda m: f"{m.tensor([1.0]):.2f}",
    ],
)
def test_tensors_in_a_format_string(text):
    assert_beside(text)


def _with_data(m, data, **options):
    x = m.ones(3, **options)
    x.data = data
    return x.tolist(), x.requires_grad


@pytest.mark.parametrize(
    "assigned",
    [
        lambda m: _with_data(m, m.ones(3, dtype=m.int64)),
        lambda m: _with_data(m, m.ones(3, dtype=m.int64), requires_grad=True),
        lambda m: _with_data(m, m.zeros(4), requires_grad=True),
        lambda m: _with_data(m, 3),
    ],
)
def test_assigned_data_keeps_what_takes_gradients_floating(assigned):
    assert_beside(assigned)


@pytest.mark.parametrize(
    "said",
    [
        lambda m: (m.is_tensor(m.ones(1)), m.is_tensor(3), m.numel(m.ones(2, 3))),
        lambda m: (m.Tensor([1, 2]).tolist(), tuple(m.Tensor(2, 3).shape), m.Tensor().tolist()),
        lambda m: (m.isin(m.tensor([1, 2, 3]), m.tensor([2, 5])).tolist(), m.pi, m.inf),
        lambda m: m.isin(m.tensor([[1.0], [2.0]]), 2, invert=True).tolist(),
        lambda m: (m.ones(2, 3).nelement(), m.ones(1, dtype=m.int32).new_tensor([2.7]).tolist()),
    ],
)
def test_small_things_a_program_says(said):
    assert_beside(said)
