import numpy as np
import torch

from labkit.pipeline.probes import cpp_probe
from labkit.pipeline.probes.against_c10 import defines, is_there


def test_the_objects_have_the_sizes_their_members_need():
    sizes = cpp_probe.sizes()
    assert sizes["intrusive_ptr_target"] >= 16  # a vtable and the counts
    assert sizes["intrusive_ptr_target"] < sizes["storage_impl"] < sizes["tensor_impl"] < 1024


def test_a_view_holds_the_storage_and_for_autograd_its_base():
    base = torch.zeros(4)
    tensors, storages = cpp_probe.use_count(base), cpp_probe.storage_use_count(base)
    view = base[1:]
    assert cpp_probe.storage_use_count(view) == storages + 1
    assert cpp_probe.use_count(base) == tensors + 1  # view._base
    del view
    assert cpp_probe.use_count(base) == tensors
    alias = base.detach()
    assert cpp_probe.storage_use_count(alias) == storages + 1
    assert cpp_probe.use_count(base) == tensors


def test_borrowed_memory_has_no_allocator():
    assert cpp_probe.has_allocator(torch.zeros(4))
    assert not cpp_probe.has_allocator(torch.from_numpy(np.zeros(4)))


def test_release_hands_the_count_over_and_frees_nothing():
    found = cpp_probe.hand_over()
    assert found["copied"] == (2, 0) and found["copy gone"] == (1, 0)
    assert found["released"] == found["reclaimed"] == (1, 0)
    assert found["gone"] == (0, 1)


def test_a_class_may_inherit_from_the_storage():
    assert not cpp_probe.storage_is_final()


def test_what_the_installed_headers_have():
    assert is_there("c10/core/StorageImpl.h") and not is_there("TH/TH.h")
    assert defines("ATen/Dispatch.h", "AT_DISPATCH_SWITCH")
    assert not defines("ATen/Dispatch.h", "AT_DISPATCH_SWIT")
    assert not defines("TH/TH.h", "AT_DISPATCH_SWITCH")
