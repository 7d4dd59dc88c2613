"""The operands of a `TensorIterator`, the flags that an operator sets, and their dtypes."""

from dataclasses import dataclass, field

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


@dataclass
class Operand:
    """One output or input on its way through the builder.

    tensor         what was passed; None for an output that is to be made
    sizes, strides elements, of what the kernel walks: of a cast copy where there is one
    current_dtype  of what the kernel walks; target_dtype is what it has to become
    is_copy        True when the kernel walks a temporary of the common dtype
    will_resize    True for an output of another shape, which is given the right one
    stride_bytes   bytes per step of the iterator's dimensions
    """

    tensor: TensorImpl | None
    is_output: bool
    sizes: Ints = ()
    strides: Ints = ()
    current_dtype: DType | None = None
    target_dtype: DType | None = None
    is_read_write: bool = False
    is_copy: bool = False
    will_resize: bool = False
    stride_bytes: list[int] = field(default_factory=list)

    @property
    def is_described(self) -> bool:
        """Whether its sizes and strides stand; an output to be made or resized has none yet."""
        return self.tensor is not None and not self.will_resize

    @property
    def dtype(self) -> DType:
        """What the kernel reads or writes, once built."""
        assert self.current_dtype is not None
        return self.current_dtype


def compute_types(operands: list[Operand], flags: Flags, all_scalars: bool) -> DType | None:
    """Settle the dtype of every operand; casts on the CPU make temporaries here.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::compute_types
    """
    inputs = [operand for operand in operands if not operand.is_output]
    outputs = [operand for operand in operands if operand.is_output]
    for operand in outputs:
        if operand.tensor is None:
            operand.target_dtype = flags.static_dtype
    has_undefined_outputs = any(operand.target_dtype is None for operand in outputs)
    input_dtypes = {operand.current_dtype for operand in inputs}
    common = inputs[0].current_dtype if inputs else None
    if len(input_dtypes) > 1 and not flags.promote_inputs_to_common_dtype:
        common = None
    if flags.check_all_same_dtype and not flags.promote_inputs_to_common_dtype:
        defined = input_dtypes | {o.current_dtype for o in outputs if o.tensor is not None}
        if len(defined) > 1:
            names = ", ".join(sorted(dtype.name for dtype in defined if dtype))
            raise RuntimeError(f"Found dtypes {names} but expected all of them to be the same")
    if flags.promote_inputs_to_common_dtype and (len(input_dtypes) > 1 or all_scalars):
        common = result_type(*[operand.tensor for operand in inputs if operand.tensor is not None])
    if flags.promote_integer_inputs_to_float and common is not None:
        common = common if common.is_floating_point or common.is_complex else get_default_dtype()
    if common is None and (has_undefined_outputs or flags.enforce_safe_casting_to_output):
        names = ", ".join(sorted(dtype.name for dtype in input_dtypes if dtype))
        raise RuntimeError(f"no common dtype for inputs of dtypes {names}")
    for operand in operands:
        _settle_dtype(operand, common, flags)
    return common


def take_types(operands: list[Operand], compute: DType, result: DType, makes_copies: bool) -> None:
    """Settle the dtype of every operand by a rule of the operator's own.

    makes_copies   inputs of another dtype are cast before the loop; a device casts as it loads

    Raises   RuntimeError   the result cannot be cast to an output's dtype
    """
    for operand in operands:
        if operand.tensor is None:
            operand.current_dtype = operand.target_dtype = result
        elif operand.is_output:
            _check_cast(result, operand.dtype)
        elif makes_copies and operand.current_dtype is not compute:
            operand.strides = _copied_strides(operand.sizes, operand.strides)
            operand.is_copy = True
            operand.current_dtype = operand.target_dtype = compute


def _check_cast(result: DType, output: DType) -> None:
    if not can_cast(result, output):
        raise RuntimeError(
            f"result type {result.name} can't be cast to the desired output type {output.name}"
        )


def _settle_dtype(operand: Operand, common: DType | None, flags: Flags) -> None:
    if operand.target_dtype is None:
        operand.target_dtype = common
    if operand.tensor is None:
        operand.current_dtype = operand.target_dtype
        return
    if common is None or operand.current_dtype is common:
        return
    if flags.enforce_safe_casting_to_output and operand.is_output:
        _check_cast(common, operand.dtype)
    if operand.is_output and flags.cast_common_dtype_to_outputs:
        operand.strides = contiguous_strides(operand.sizes)
    elif not operand.is_output and flags.promote_inputs_to_common_dtype:
        operand.strides = _copied_strides(operand.sizes, operand.strides)
    else:
        return
    operand.is_copy = True
    operand.current_dtype = operand.target_dtype = common


def _copied_strides(sizes: Ints, strides: Ints) -> Ints:
    """The strides of a cast copy: kept where dense, else packed in the same order.

    Source   aten/src/ATen/native/TensorConversions.cpp  _to_copy
    """
    if is_non_overlapping_and_dense(sizes, strides):
        return strides
    return infer_dense_strides(sizes, strides)
