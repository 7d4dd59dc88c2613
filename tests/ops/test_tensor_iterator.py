import pytest

from labkit.conformance.iterator import NULLARY, REDUCE, UNARY, comparison_flags
from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import empty, empty_strided
from labkit.ops.iterator.iterator_operand import Flags
from labkit.ops.iterator.tensor_iterator import build


def test_contiguous_operands_become_one_dimension():
    it = build([empty((3, 4), dtypes.float32), empty((3, 4), dtypes.float32)])
    assert (it.shape, it.is_contiguous) == ([12], True)
    assert [operand.stride_bytes for operand in it.operands] == [[4], [4], [4]]


def test_a_broadcast_operand_has_stride_zero_and_stays_uncopied():
    column = empty((3, 1), dtypes.float64)
    it = build([empty((3, 4), dtypes.float64), column])
    assert it.shape == [4, 3]
    assert it.operands[2].stride_bytes == [0, 8]
    assert it.operands[2].tensor is column


def test_the_output_follows_the_order_of_a_transposed_input():
    it = build([empty_strided((3, 4), (1, 3), dtypes.float32)], flags=UNARY)
    assert it.shape == [12]
    assert it.outputs[0].strides == (1, 3)


def test_mixed_dtypes_compute_in_the_common_one_from_a_copy():
    it = build([empty((2, 2), dtypes.int32), empty((2, 2), dtypes.float16)])
    assert it.common_dtype is dtypes.float16
    assert [operand.is_copy for operand in it.operands] == [False, True, False]


def test_a_comparison_answers_in_bool():
    inputs = [empty((2,), dtypes.int32), empty((2,), dtypes.float32)]
    assert build(inputs, [None], comparison_flags(None)).outputs[0].dtype is dtypes.bool_


def test_reduced_dimensions_come_first():
    out = empty_strided((3, 1), (1, 0), dtypes.float32)
    it = build([empty((3, 4), dtypes.float32)], [out], REDUCE)
    assert (it.shape, it.operands[0].stride_bytes) == ([4, 3], [0, 4])


def test_a_row_is_walked_again_and_again():
    it = build([empty((3, 4), dtypes.float32), empty((4,), dtypes.float32)])
    assert (it.shape, it.perm) == ([4, 3], [1, 0])
    assert [operand.stride_bytes for operand in it.operands] == [[4, 16], [4, 16], [4, 0]]


@pytest.mark.parametrize(
    ("inputs", "outputs", "flags", "message"),
    [
        ([(2, 3), (2,)], [None], Flags(), r"tensor a \(3\) must match the size of tensor b \(2\)"),
        ([(2,)], [(1,)], Flags(resize_outputs=False), r"shape \[1\] doesn't match the broadcast"),
    ],
)
def test_wrong_shapes_are_refused(inputs, outputs, flags, message):
    made = [empty(sizes, dtypes.float32) for sizes in inputs]
    out = [sizes and empty(sizes, dtypes.float32) for sizes in outputs]
    with pytest.raises(RuntimeError, match=message):
        build(made, out, flags)


def test_wrong_dtypes_and_overlap_are_refused():
    floats, ints = empty((2,), dtypes.float32), empty((2,), dtypes.int32)
    with pytest.raises(
        RuntimeError, match="float32 can't be cast to the desired output type int32"
    ):
        build([floats, floats], [ints])
    with pytest.raises(RuntimeError, match="Found dtypes float32, int32"):
        build([floats, ints], flags=Flags())
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        build([], [empty_strided((4,), (0,), dtypes.float32)], NULLARY)
