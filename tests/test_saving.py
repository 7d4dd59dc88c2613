"""Tensors and modules copied, pickled and kept in files, as PyTorch copies and keeps them."""

import copy
import io
import pickle

import pytest
import torch

import labkit as lab
from tests.beside import assert_beside, refusal


def through_a_pickle(value):
    return pickle.loads(pickle.dumps(value))


def through_a_file(m, value):
    file = io.BytesIO()
    m.save(value, file)
    file.seek(0)
    return m.load(file)


def described(x):
    return x.tolist(), x.stride(), x.storage_offset(), x.requires_grad, x.is_leaf, str(x.dtype)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, through_a_pickle])
def test_a_copy_is_what_the_tensor_is(way):
    assert_beside(lambda m: described(way(m.ones(2, 3, dtype=m.bfloat16).t()[1:])))
    assert_beside(lambda m: described(way(m.ones(2, requires_grad=True))))
    assert_beside(lambda m: type(way(m.nn.Parameter(m.ones(2)))).__name__)
    assert_beside(lambda m: described(way(m.zeros(0, 3))))


def test_only_a_plain_copy_shares_memory():
    def shared(m, way):
        x = m.ones(2)
        return way(x).data_ptr() == x.data_ptr()

    for way in (copy.copy, copy.deepcopy, through_a_pickle):
        assert_beside(lambda m, way=way: shared(m, way))


def test_a_deep_copy_has_the_gradient_and_the_attributes():
    def copied(m):
        x = m.ones(2, requires_grad=True)
        x.note = ["a"]
        (x * 3).sum().backward()
        y = copy.deepcopy(x)
        return y.grad.tolist(), y.grad is x.grad, y.note, y.note is x.note

    assert_beside(copied)


def test_a_computed_tensor_is_not_deep_copied():
    for m in (torch, lab):
        text = refusal(lambda m: copy.deepcopy(m.ones(1, requires_grad=True) * 2), m)
        assert text.startswith("Only Tensors created explicitly by the user")
    assert_beside(lambda m: described(copy.copy(m.ones(1, requires_grad=True) * 2)))


def test_views_of_one_storage_stay_views_of_one():
    def written(m, way):
        base = m.arange(6.0)
        first, second = way(m, [base, base[1:3]])
        first[1] = 9
        return second.tolist(), base.tolist()

    assert_beside(lambda m: written(m, lambda m, value: copy.deepcopy(value)))
    assert_beside(lambda m: written(m, through_a_file))


def test_attributes_stay_with_their_tensor():
    def attributes(m):
        x = m.ones(2)
        x.note = 3
        return x.note, x.__dict__, (x + 1).__dict__, through_a_pickle(x).note

    assert_beside(attributes)


@pytest.mark.parametrize("way", [copy.deepcopy, through_a_pickle])
def test_a_module_is_copied_with_everything_below_it(way):
    def copied(m):
        module = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2)).eval()
        made = way(module)
        same = [
            (ours.tolist() == theirs.tolist(), ours is theirs)
            for ours, theirs in zip(made.parameters(), module.parameters(), strict=True)
        ]
        return list(made.state_dict()), made.training, same

    assert_beside(copied)


def test_weights_travel_through_a_file(tmp_path):
    def loaded(m):
        first, second = m.nn.Linear(2, 3), m.nn.Linear(2, 3)
        m.save(first.state_dict(), tmp_path / m.__name__)
        keys = second.load_state_dict(m.load(tmp_path / m.__name__))
        return first.weight.tolist() == second.weight.tolist(), list(keys)

    assert_beside(loaded)


def test_a_file_that_asks_for_more_than_tensors_is_refused():
    class Harmful:
        def __reduce__(self):
            return print, ("run",)

    for m in (torch, lab):
        with pytest.raises(pickle.UnpicklingError):
            through_a_file(m, Harmful())


def test_memory_of_a_device_is_copied_there():
    x = lab.arange(4, dtype=lab.float32, device="cuda")
    for made in (copy.deepcopy(x), through_a_pickle(x)):
        assert made.is_cuda
        assert made.data_ptr() != x.data_ptr()
        assert made.cpu().tolist() == [0.0, 1.0, 2.0, 3.0]
