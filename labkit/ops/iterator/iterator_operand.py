"""The operands of a `TensorIterator`, the flags that an operator sets, and their dtypes."""

from dataclasses import dataclass, field

from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints, contiguous_strides
from labkit.core.promotion import can_cast, get_default_dtype, result_type
from labkit.core.strides import infer_dense_strides, is_non_overlapping_and_dense
from labkit.core.tensor_impl import TensorImpl


@dataclass(frozen=True)
class Flags:
    """What an operator asks of the builder; the defaults are PyTorch's.

    Source   aten/src/ATen/TensorIterator.h  TensorIteratorConfig
    """

    check_all_same_dtype: bool = True
    check_mem_overlap: bool = True
    resize_outputs: bool = True
    is_reduction: bool = False
    enforce_linear_iteration: bool = False
    promote_inputs_to_common_dtype: bool = False
    promote_integer_inputs_to_float: bool = False
    cast_common_dtype_to_outputs: bool = False
    enforce_safe_casting_to_output: bool = False
    static_dtype: DType | None = None


BINARY = Flags(
    promote_inputs_to_common_dtype=True,
    cast_common_dtype_to_outputs=True,
    enforce_safe_casting_to_output=True,
)


AS_THEY_ARE = Flags(check_all_same_dtype=False, check_mem_overlap=False, resize_outputs=False)
"""For a kernel that loads each operand in its own type, and whose caller has checked the rest."""


@dataclass
class Operand:
    """One output or input on its way through the builder.

    tensor         what was passed; None for an output that is to be made
    sizes, strides elements, of what the kernel walks: of a cast copy where there is one
    dtype          of what the kernel walks; an output that is to be made gets one with the types
    device         where the tensor is: the iterator's, or the host for a 0-dim input
    is_described   whether sizes and strides stand; an output to be made or resized has none yet
    is_copy        True when the kernel walks a temporary of the common dtype
    will_resize    True for an output of another shape, which is given the right one
    stride_bytes   bytes per step of the iterator's dimensions

    Source   aten/src/ATen/TensorIterator.h  OperandInfo
    """

    tensor: TensorImpl | None
    is_output: bool
    sizes: Ints = ()
    strides: Ints = ()
    dtype: DType = field(init=False)
    device: Device = CPU
    is_described: bool = False
    is_read_write: bool = False
    is_copy: bool = False
    will_resize: bool = False
    stride_bytes: list[int] = field(default_factory=list)


def compute_types(operands: list[Operand], flags: Flags, all_scalars: bool) -> DType | None:
    """Settle the dtype of every operand; casts on the CPU make temporaries here.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::compute_types
    """
    inputs = [operand for operand in operands if not operand.is_output]
    given = [operand for operand in operands if operand.is_output and operand.tensor is not None]
    makes_some = len(inputs) + len(given) < len(operands)
    has_undefined_outputs = makes_some and flags.static_dtype is None
    input_dtypes = {operand.dtype for operand in inputs}
    common = inputs[0].dtype if inputs else None
    if len(input_dtypes) > 1 and not flags.promote_inputs_to_common_dtype:
        common = None
    if flags.check_all_same_dtype and not flags.promote_inputs_to_common_dtype:
        defined = input_dtypes | {operand.dtype for operand in given}
        if len(defined) > 1:
            names = ", ".join(sorted(dtype.name for dtype in defined))
            raise RuntimeError(f"Found dtypes {names} but expected all of them to be the same")
    if flags.promote_inputs_to_common_dtype and (len(input_dtypes) > 1 or all_scalars):
        common = result_type(*[operand.tensor for operand in inputs if operand.tensor is not None])
    if flags.promote_integer_inputs_to_float and common is not None:
        common = common if common.is_inexact else get_default_dtype()
    if common is None and (has_undefined_outputs or flags.enforce_safe_casting_to_output):
        names = ", ".join(sorted(dtype.name for dtype in input_dtypes))
        raise RuntimeError(f"no common dtype for inputs of dtypes {names}")
    for operand in operands:
        _settle_dtype(operand, common, flags)
    return common


def check_cast(result: DType, output: DType) -> None:
    """Refuse an output that cannot hold the result.

    Raises   RuntimeError   naming both dtypes
    """
    if not can_cast(result, output):
        raise RuntimeError(
            f"result type {result.name} can't be cast to the desired output type {output.name}"
        )


def _settle_dtype(operand: Operand, common: DType | None, flags: Flags) -> None:
    if operand.tensor is None:
        made = flags.static_dtype or common
        assert made is not None, "`compute_types` has asked"
        operand.dtype = made
        return
    if common is None or operand.dtype is common:
        return
    if flags.enforce_safe_casting_to_output and operand.is_output:
        check_cast(common, operand.dtype)
    if operand.is_output and flags.cast_common_dtype_to_outputs:
        operand.strides = contiguous_strides(operand.sizes)
    elif not operand.is_output and flags.promote_inputs_to_common_dtype:
        operand.strides = copied_strides(operand.sizes, operand.strides)
    else:
        return
    operand.is_copy = True
    operand.dtype = common


def copied_strides(sizes: Ints, strides: Ints) -> Ints:
    """The strides of a cast copy: kept where dense, else packed in the same order.

    Source   aten/src/ATen/native/TensorConversions.cpp  _to_copy
    """
    if is_non_overlapping_and_dense(sizes, strides):
        return strides
    return infer_dense_strides(sizes, strides)
