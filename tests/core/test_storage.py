import numpy as np
import pytest

import labkit as lab
from labkit.core.allocator import CPUAllocator, DataPtr
from labkit.core.device import CPU
from labkit.core.storage import Storage


class Counting(CPUAllocator):
    def __init__(self):
        super().__init__()
        self.live = 0

    def allocate(self, nbytes):
        pointer = super().allocate(nbytes)
        inner, context = pointer.deleter, pointer.release_context()
        self.live += 1

        def delete(_):
            self.live -= 1
            if inner:
                inner(context)

        return DataPtr(pointer.address, CPU, context, delete)


@pytest.fixture
def counting(monkeypatch):
    from labkit.core import allocator as allocators

    counting = Counting()
    monkeypatch.setitem(allocators._allocators, "cpu", (9, counting))
    return counting


def test_views_and_handles_count_as_in_torch():
    x = lab.zeros(3, 4)
    handle = x.storage()
    assert handle.use_count == 2
    row = x[1]
    assert handle.use_count == 3
    del x  # the view keeps its base
    assert handle.use_count == 3
    del row
    assert handle.use_count == 1


def test_memory_goes_back_with_the_last_user(counting):
    x = lab.zeros(8)
    row, storage = x[2:], x.storage()
    del x, storage
    assert counting.live == 1
    del row
    assert counting.live == 0


def test_a_numpy_array_keeps_the_memory_of_a_dead_tensor(counting):
    array = lab.arange(5).numpy()
    assert counting.live == 1
    assert array.tolist() == [0, 1, 2, 3, 4]
    del array
    assert counting.live == 0


def test_growing_keeps_the_bytes_and_moves_the_address(counting):
    x = lab.arange(4, dtype=lab.int32)
    storage = x.storage()
    before = storage.bytes()
    storage.resize_(1 << 20)
    assert x.tolist() == [0, 1, 2, 3]
    assert before.view(np.int32).tolist() == [0, 1, 2, 3]  # an old window outlives its memory
    assert storage.nbytes == 1 << 20
    del before
    assert counting.live == 1


def test_a_view_of_a_shrunk_storage_is_refused_when_read():
    x = lab.arange(4)
    x.storage().resize_(8)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 8"):
        x.tolist()


def test_borrowed_and_exported_memory_does_not_resize():
    x = lab.from_numpy(np.zeros(3))
    y = lab.zeros(3)
    y.numpy()
    for tensor in (x, y):
        with pytest.raises(RuntimeError, match="not resizable"):
            tensor.storage().resize_(100)


def test_a_lazy_clone_copies_when_either_side_writes(counting):
    x = lab.arange(4)
    y = x._lazy_clone()
    assert x.storage().const_data_ptr() == y.storage().const_data_ptr()
    assert counting.live == 1
    y[0] = 9
    assert counting.live == 2
    assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [9, 1, 2, 3])
    address = x.storage().const_data_ptr()
    x[1] = 7  # the last owner keeps the block
    assert x.storage().const_data_ptr() == address
    assert counting.live == 2
    del x, y
    assert counting.live == 0


def test_reading_does_not_copy_a_lazy_clone(counting):
    x = lab.arange(4)
    clones = [x._lazy_clone() for _ in range(3)]
    assert [clone.tolist() for clone in clones] == [[0, 1, 2, 3]] * 3
    assert (x + clones[0]).tolist() == [0, 2, 4, 6]
    assert counting.live == 1
    del x
    clones.clear()
    assert counting.live == 0


def test_bytes_are_addressed_one_by_one():
    storage = lab.tensor([1, 256], dtype=lab.int16).storage()
    assert [storage[i] for i in range(len(storage))] == [1, 0, 0, 1]
    assert isinstance(storage, Storage)
