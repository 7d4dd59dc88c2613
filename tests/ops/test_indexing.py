import numpy as np
import pytest
import torch

import labkit as lab


def both(*sizes):
    count = int(np.prod(sizes))
    return torch.arange(count).reshape(sizes), lab.arange(count).reshape(sizes)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        ((slice(None), [0, 1], [0, 1]), (2, 2, 5)),  # side by side: in place
        (([0, 1], slice(None), [0, 1]), (2, 3, 5)),  # separated: in front
        ((0, slice(None), [0, 1]), (3, 2, 5)),  # the integer is a view first, so not separated
        ((..., [0, 1]), (2, 3, 4, 2)),
        ((None, [1], ..., 0), (1, 1, 3, 4)),
        (([[0, 1], [1, 0]],), (2, 2, 3, 4, 5)),
        (True, (1, 2, 3, 4, 5)),
        (False, (0, 2, 3, 4, 5)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_place_of_gathered_dimensions_is_pytorchs(index, shape):
    theirs, ours = both(2, 3, 4, 5)
    assert tuple(theirs[index].shape) == tuple(ours[index].shape) == shape
    assert ours[index].tolist() == theirs[index].tolist()
    assert ours[index].stride() == theirs[index].stride()


def test_an_integer_beside_a_separated_list_is_where_numpy_differs():
    _, ours = both(2, 3, 4, 5)
    assert tuple(ours[0, :, [0, 1]].shape) == (3, 2, 5)
    assert np.zeros((2, 3, 4, 5))[0, :, [0, 1]].shape == (2, 3, 5)


def test_a_mask_uses_up_as_many_dimensions_as_it_has():
    theirs, ours = both(2, 3, 4)
    mask = [[True, False, True], [False, True, False]]
    expected = theirs[torch.tensor(mask), 1:].tolist()
    assert ours[lab.tensor(mask), 1:].tolist() == expected
    assert ours[ours > 20].tolist() == [21, 22, 23]


def test_basic_items_are_views_and_the_rest_are_copies():
    x = lab.zeros(3, 4)
    assert x[1:, None, ..., 0].storage().is_alias_of(x.storage())
    assert x[lab.tensor(1)].storage().is_alias_of(x.storage())
    assert not x[[1]].storage().is_alias_of(x.storage())
    assert x[...] is not x


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero, got -1"),
        (([0, 1], [0, 1, 2]), IndexError, r"broadcast together with shapes \[2\], \[3\]"),
        ([[0, 7]], IndexError, "index 7 is out of bounds"),
        (np.array([True, False]), IndexError, r"mask \[2\] at index 0 .* tensor \[3, 4\]"),
        (1.5, IndexError, "only integers.*got float"),
        ("a", TypeError, "invalid data type 'str'"),
        (slice(1.5), TypeError, "got float"),
        (2**70, ValueError, "Overflow"),
        (lab.tensor([0.0]), IndexError, "must be long, int, byte or bool tensors"),
    ],
    ids=str,
)
def test_errors_carry_the_values(index, error, words):
    with pytest.raises(error, match=words):
        lab.zeros(3, 4)[index]


def test_assignment_through_every_kind_of_index():
    theirs, ours = both(3, 4)
    for x, m in ((theirs, torch), (ours, lab)):
        x[0, 1:3] = 50
        x[[1, 2], [0, 3]] = m.tensor([60, 61])
        x[x == 9] = 70
        x[:, None][2] += 100
        x[..., m.tensor([1])] = m.tensor([[1], [2], [3]])
    assert ours.tolist() == theirs.tolist()
    assert ours._version == theirs._version


def test_of_repeated_positions_the_last_wins_or_all_add_up():
    for m in (torch, lab):
        x = m.zeros(3, dtype=m.int64)
        x.index_put_((m.tensor([1, 1, 1]),), m.tensor([5, 6, 7]))
        assert x.tolist() == [0, 7, 0]
        x.index_put_((m.tensor([1, 1, 0]),), m.tensor([1, 1, 1]), accumulate=True)
        assert x.tolist() == [1, 9, 0]


def test_accumulation_rounds_after_every_addition():
    results = []
    for m in (torch, lab):
        x = m.full((1,), 256, dtype=m.bfloat16)
        x.index_put_((m.tensor([0, 0]),), m.ones(2, dtype=m.bfloat16), accumulate=True)
        results.append(x.tolist())
    assert results[0] == results[1] == [256.0]  # 257 is no bfloat16, so 1 is lost twice


@pytest.mark.parametrize(
    ("write", "error", "words"),
    [
        (lambda x: x.__setitem__([0], lab.zeros(4)), RuntimeError, "int64 .* and float32"),
        (lambda x: x.__setitem__([0, 1], lab.zeros(3, dtype=lab.int64)), RuntimeError,
         r"shape \[3\] cannot be broadcast to indexing result of shape \[2, 4\]"),
        (lambda x: x.__setitem__(0, [1, 2, 3, 4]), TypeError, "can't assign a list"),
        (lambda x: x.__setitem__([0], x[1:2]), RuntimeError, "refer to a single memory location"),
        (lambda x: x.masked_fill_(lab.ones(3, 4), 1), RuntimeError, "boolean masks"),
        (lambda x: x.__setitem__(0, lab.zeros(5)), RuntimeError, r"\(4\) must match .* \(5\)"),
    ],
)  # fmt: skip
def test_writes_that_are_refused(write, error, words):
    x = lab.zeros(3, 4, dtype=lab.int64)
    with pytest.raises(error, match=words):
        write(x)
    assert x._version == 0
