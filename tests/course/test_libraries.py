"""What the loader says of PyTorch's libraries."""

import ctypes
import inspect

import pytest
import torch

from labkit.course import libraries


def test_a_new_python_has_none_of_them_loaded():
    assert libraries.fresh("pass") == []


def test_a_library_brings_what_it_needs():
    path = str(libraries.file_of("torch_cpu"))
    found = libraries.fresh(f"import ctypes; ctypes.CDLL({path!r})")
    assert {"c10", "torch_cpu"} <= set(found) and "torch_python" not in found


def test_an_error_of_the_new_python_comes_back():
    assert libraries.fresh("1 / 0") == "ZeroDivisionError: division by zero"


def test_this_process_has_loaded_them():
    assert {"c10", "torch", "torch_cpu", "torch_python"} <= set(libraries.loaded())


def test_a_library_that_is_not_there_is_refused():
    with pytest.raises(FileNotFoundError, match="no library 'THC'"):
        libraries.file_of("THC")


@pytest.mark.parametrize("function", [torch.add, torch.Tensor.add, torch._C._nn.gelu])
def test_the_function_behind_a_binding_lies_in_torch_python(function):
    address = libraries.address_of(function)
    assert libraries.short(libraries.holder_of(address)) == "torch_python"


def test_an_exported_function_lies_where_the_loader_finds_it():
    library = ctypes.CDLL(str(libraries.file_of("torch_cpu")))
    address = ctypes.cast(library._ZN3c1020GetStorageImplCreateENS_10DeviceTypeE, ctypes.c_void_p)
    assert libraries.short(libraries.holder_of(address.value)) == "c10"


def test_what_is_written_in_python_has_no_such_address():
    assert inspect.isfunction(torch.tensordot)
    with pytest.raises(TypeError, match="not a built-in"):
        libraries.address_of(torch.tensordot)
    with pytest.raises(ValueError, match="no library holds"):
        libraries.holder_of(1)
