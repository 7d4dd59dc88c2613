import pytest
import torch

import labkit as lab


def both(*sizes):
    count = 1
    for size in sizes:
        count *= size
    return torch.arange(count).reshape(sizes), lab.arange(count).reshape(sizes)


def metadata(x):
    return tuple(x.shape), x.stride(), x.storage_offset()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x: x.t(), ((4, 3), (1, 4), 0)),
        (lambda x: x[1:, ::2], ((2, 2), (4, 2), 4)),
        (lambda x: x.diagonal(1), ((3,), (5,), 1)),
        (lambda x: x.unfold(1, 2, 2), ((3, 2, 2), (4, 2, 1), 0)),
        (lambda x: x[1].expand(2, 4), ((2, 4), (0, 1), 4)),
        (lambda x: x.unsqueeze(1), ((3, 1, 4), (4, 4, 1), 0)),
        (lambda x: x.select(1, -1), ((3,), (4,), 3)),
        (lambda x: x.as_strided((2, 3), (1, 1), 2), ((2, 3), (1, 1), 2)),
        (lambda x: x.view(2, 6), ((2, 6), (6, 1), 0)),
    ],
)
def test_metadata_of_the_operations_by_hand(operation, expected):
    for x in both(3, 4):
        assert metadata(operation(x)) == expected


def test_a_0_dim_tensor_expands_with_stride_zero_even_to_size_one():
    for x in (torch.tensor(3), lab.tensor(3)):
        assert x.expand(1).stride() == (0,)


def test_views_share_bytes_version_and_base():
    x = lab.zeros(3, 4)
    row = x[1]
    column = row.view(2, 2)[:, 0]
    column += 5
    assert x.tolist() == [[0, 0, 0, 0], [5, 0, 5, 0], [0, 0, 0, 0]]
    assert x._version == row._version == column._version == 1
    assert column._base.impl is x.impl
    assert column.data_ptr() - x.data_ptr() == 16
    assert not x._is_view()


def test_a_detached_tensor_shares_the_version_and_data_does_not():
    x = lab.zeros(2)
    detached, data = x.detach(), x.data
    x.add_(1)
    assert (detached._version, data._version) == (1, 0)
    assert not detached._is_view()
    assert data.tolist() == [1, 1]


def test_reshape_copies_only_when_it_must():
    x = lab.arange(12).reshape(3, 4)
    assert x.reshape(6, 2).storage().is_alias_of(x.storage())
    copied = x.t().reshape(12)
    assert not copied.storage().is_alias_of(x.storage())
    assert copied.tolist() == x.t().flatten().tolist()


@pytest.mark.parametrize(
    ("operation", "error", "words"),
    [
        (lambda x: x.t().view(12), RuntimeError, r"sizes \[4, 3\], strides \[1, 4\]"),
        (
            lambda x: x.view(5, -1),
            RuntimeError,
            r"shape '\[5, -1\]' is invalid for input of size 12",
        ),
        (lambda x: x.transpose(0, 2), IndexError, r"range of \[-2, 1\], but got 2"),
        (lambda x: x.select(0, 3), IndexError, r"index 3 out of range .* \[3, 4\] at dimension 0"),
        (lambda x: x.narrow(0, 2, 2), RuntimeError, r"start \(2\) \+ length \(2\) exceeds"),
        (lambda x: x.expand(3, 5), RuntimeError, r"\(5\) must match the existing size \(4\)"),
        (lambda x: x.unfold(0, 4, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3"),
        (lambda x: x.permute(0, 0), RuntimeError, r"duplicate dims are not allowed: \[0, 0\]"),
        (lambda x: x.split([1, 1]), RuntimeError, r"sum exactly to 3 .*split_sizes=\[1, 1\]"),
        (lambda x: x.as_strided((3,), (6,)), RuntimeError, "storage of size 96"),
        (lambda x: x[:, 1:].view(lab.int32).view(lab.complex128), RuntimeError, "divisible by 4"),
        (lambda x: x.reshape(2.0, 6), TypeError, "expected an int, got float 2.0"),
        (lambda x: x.view(), TypeError, "expects sizes or a dtype"),
        (lambda x: x.view_as([3, 4]), TypeError, "got list"),
    ],
)
def test_errors_carry_the_values(operation, error, words):
    with pytest.raises(error, match=words):
        operation(lab.arange(12).reshape(3, 4))


def test_bytes_read_as_another_type():
    x = lab.tensor([1.0, -2.0])
    assert x.view(lab.int32).tolist() == [0x3F800000, -0x40000000]
    assert x.view(lab.uint8).shape == (8,)
    pairs = lab.tensor([[1.0, 2.0], [3.0, 4.0]])
    numbers = pairs.view_as_complex()
    numbers.imag.fill_(7)
    assert numbers.tolist() == [1 + 7j, 3 + 7j]
    assert pairs.tolist() == [[1, 7], [3, 7]]
