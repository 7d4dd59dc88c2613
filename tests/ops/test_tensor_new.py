import numpy as np
import pytest
import torch

import labkit as lab


@pytest.mark.parametrize(
    "data",
    [[], [[]], [[], []], 3, 2.5, True, 1j, [1, 2.5], [True, 2], [[1, 2], [3, 4]], [1, 2j],
     ((1, 2), [3, 4]), [[[1]]], [True, False], np.float32(2), [np.int64(3), 4],
     [1.5, np.float64(2)], [np.int8(1), True], [np.float16(1)], [np.array([1, 2]), [3, 4]],
     [1.5, 2**70]],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
def test_numbers_become_the_tensor_torch_makes(data):
    theirs, ours = torch.tensor(data), lab.tensor(data)
    assert (ours.tolist(), tuple(ours.shape)) == (theirs.tolist(), tuple(theirs.shape))
    assert ours.dtype.name == str(theirs.dtype)[6:]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [([1, [2]], None), ([[1, 2], [3]], None), (["a"], None), ([None], None), ({1: 2}, None),
     ([300], "uint8"), ([-129], "int8"), ([2**63], "int64"), ([1j], "float32"),
     ([float("nan")], "int64"), ([1.5], "int32"), ([1e6], "float16"), ([-1], "uint8")],
    ids=str,
)  # fmt: skip
def test_other_data_is_refused_or_accepted_as_in_torch(data, dtype):
    outcomes = []
    for m in (torch, lab):
        try:
            made = m.tensor(data, dtype=dtype and getattr(m, dtype))
            outcomes.append(str(made.tolist()))
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "bounds", [(5,), (2, 9), (1, 2, 0.25), (5, 0, -2), (0.1, 1, 0.1), (3, 3), (2.5,)]
)
def test_arange(bounds):
    theirs, ours = torch.arange(*bounds), lab.arange(*bounds)
    assert ours.dtype.name == str(theirs.dtype)[6:]
    assert np.array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("bounds", [(0, 5, 0), (5, 0), (0, 5, -1), (0, float("inf"))])
def test_arange_refuses_what_torch_refuses(bounds):
    with pytest.raises(RuntimeError):
        torch.arange(*bounds)
    with pytest.raises(RuntimeError):
        lab.arange(*bounds)


def test_a_numpy_array_shares_its_memory_both_ways():
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    x = lab.from_numpy(array)
    assert x.stride() == (3, 2)
    x[0, 1] = 9
    array[1, 0] = 7
    assert x.tolist() == [[0, 9], [7, 5]] == array.tolist()
    assert x.data_ptr() == array.ctypes.data


def test_arrays_that_no_tensor_can_describe_are_refused():
    with pytest.raises(ValueError, match="negative"):
        lab.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="multiples of the element size"):
        lab.from_numpy(np.zeros(3, [("a", "i1"), ("b", "<i4")])["b"])
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        lab.from_numpy([1])
    with pytest.warns(UserWarning, match="not writable"):
        lab.from_numpy(np.broadcast_to(np.zeros(1), (3,)))


def test_sharing_and_copying_factories():
    array = np.zeros(3, np.float32)
    assert lab.as_tensor(array).data_ptr() == array.ctypes.data
    assert lab.tensor(array).data_ptr() != array.ctypes.data
    assert lab.as_tensor(array, dtype=lab.float64).data_ptr() != array.ctypes.data
    assert lab.from_dlpack(array).data_ptr() == array.ctypes.data
    x = lab.zeros(3)
    assert lab.as_tensor(x) is x
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_like_variants_keep_the_order_of_dimensions(name):
    for m in (torch, lab):
        x = m.empty(2, 3, 4, 5, memory_format=m.channels_last)
        assert getattr(m, f"{name}_like")(x).stride() == (60, 1, 15, 3)
        assert getattr(m, f"{name}_like")(x[:, :, ::2]).stride() == (30, 1, 15, 3)
        forced = getattr(m, f"{name}_like")(x, memory_format=m.contiguous_format)
        assert forced.stride() == (60, 20, 5, 1)


def test_sizes_that_are_none_are_refused():
    with pytest.raises(RuntimeError, match="negative dimension"):
        lab.zeros(2, -1)
    with pytest.raises(TypeError, match=r"must be SymInt.., not float 2.5"):
        lab.zeros(2.5)
    with pytest.raises(RuntimeError):
        lab.empty(1 << 62)


def test_full_and_eye():
    assert lab.full((2,), 3).dtype is lab.int64
    assert lab.full((2,), True).dtype is lab.bool
    assert lab.full_like(lab.zeros(2), 7).tolist() == [7.0, 7.0]
