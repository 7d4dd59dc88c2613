"""What every elementwise operator does first: one shape, one dtype, one order for all operands.

`build` takes the steps of PyTorch's builder in PyTorch's order. The result says how a kernel would
walk the operands: a shape without needless dimensions, and for each operand the bytes to the next
element along each of them. Dimension 0 is the fastest here, as in PyTorch's iterator.

Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::build
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints
from labkit.core.memory_overlap import assert_no_internal_overlap, assert_no_partial_overlap
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.iterator.iteration_order import (
    broadcast_strides,
    iteration_order,
    packed_strides,
    shared_strides,
)
from labkit.ops.iterator.iterator_operand import (
    BINARY,
    Flags,
    Operand,
    check_cast,
    compute_types,
    copied_strides,
)


@dataclass
class TensorIterator:
    """The built iterator.

    shape         what a kernel loops over: dimension 0 fastest, coalesced
    numel         how many elements that visits
    operands      outputs first; `stride_bytes` match `shape`
    common_dtype  what the kernel computes in; None where operands differ and nothing asked for one
    broadcast     the shape all operands have for the caller
    device        where the kernel runs
    perm          perm[i] is the caller's dimension that became dimension i before coalescing
    """

    shape: list[int]
    numel: int
    operands: list[Operand]
    common_dtype: DType | None
    broadcast: Ints
    device: Device
    perm: list[int]

    @property
    def ndim(self) -> int:
        """How many dimensions are left to loop over."""
        return len(self.shape)

    @property
    def outputs(self) -> list[Operand]:
        """The operands that are written."""
        return [operand for operand in self.operands if operand.is_output]

    @property
    def is_contiguous(self) -> bool:
        """Whether one plain loop over neighbouring elements serves every operand."""
        if self.numel == 1:
            return True
        return self.ndim == 1 and all(
            operand.stride_bytes[0] == operand.dtype.itemsize for operand in self.operands
        )


def build(
    inputs: Sequence[TensorImpl],
    outputs: Sequence[TensorImpl | None] = (None,),
    flags: Flags = BINARY,
    types: tuple[DType, DType] | None = None,
) -> TensorIterator:
    """The iterator over these operands; outputs that are None are described, not allocated.

    inputs   tensors of any broadcastable shapes
    outputs  tensors to write to, or None for one to be made
    types    of the computation and of its result, where the operator's own rule says; None to
             leave them to the flags

    Raises   RuntimeError   several devices, shapes that do not broadcast, dtypes that do not agree
                            or cannot be cast, an output that overlaps itself or part of an input,
                            or is of the wrong shape
    """
    operands = [_operand(tensor, is_output=True) for tensor in outputs]
    operands += [_operand(tensor, is_output=False) for tensor in inputs]
    for operand in operands:
        operand.is_read_write = operand.is_output and any(
            operand.tensor is other for other in inputs
        )
    if flags.check_mem_overlap:
        _check_overlap(operands)
    shape, all_same_shape, all_scalars = _broadcast_shape(operands, flags)
    _mark_resized(operands, shape, flags)
    device = common_device(inputs, outputs[0])
    if types is None:
        common_dtype = compute_types(operands, flags, all_scalars)
    else:
        common_dtype, result_dtype = types
        _take_types(operands, common_dtype, result_dtype, makes_copies=device is CPU)
    it = TensorIterator(list(shape), math.prod(shape), operands, common_dtype, shape, device, [])
    if not _fast_set_up(it, all_same_shape, flags):
        _compute_strides(it)
        _reorder(it, flags)
        _describe_outputs(it)
        _coalesce(it)
    return it


def _operand(tensor: TensorImpl | None, is_output: bool) -> Operand:
    operand = Operand(tensor, is_output)
    if tensor is not None:
        operand.sizes, operand.strides, operand.dtype = tensor.sizes, tensor.strides, tensor.dtype
        operand.device, operand.is_described = tensor.device, True
    return operand


def common_device(operands: Sequence[TensorImpl], out: TensorImpl | None = None) -> Device:
    """Where the operator runs: a 0-dim operand may stay on the host, unless it is the output.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::compute_types
    """
    every = [*operands] if out is None else [out, *operands]
    common = next((each.device for each in every if each.device.type != "cpu"), CPU)
    if common.type == "cpu":
        return CPU
    for operand in every:
        is_scalar = operand.device.type == "cpu" and not operand.sizes and operand is not out
        if operand.device != common and not is_scalar:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{common} and {operand.device}!"
            )
    return common


def _check_overlap(operands: list[Operand]) -> None:
    for written in operands:
        if not written.is_output or written.tensor is None:
            continue
        assert_no_internal_overlap(written.sizes, written.strides)
        for read in operands:
            if not read.is_output and read.tensor is not None:
                assert_no_partial_overlap(written.tensor, read.tensor)


def _broadcast_shape(operands: list[Operand], flags: Flags) -> tuple[Ints, bool, bool]:
    """The common shape, whether all operands have it already, and whether all are 0-dim."""
    shape: Ints = ()
    seen: list[Ints] = []
    for operand in operands:
        if operand.tensor is None or (flags.resize_outputs and operand.is_output):
            continue  # an output that may be resized has no say
        seen.append(operand.sizes)
        if operand.sizes != shape:
            shape = broadcast_shapes(shape, operand.sizes) if shape else operand.sizes
    return shape, len(set(seen)) <= 1, all(not sizes for sizes in seen)


def _mark_resized(operands: list[Operand], shape: Ints, flags: Flags) -> None:
    for operand in operands:
        if not operand.is_output or operand.tensor is None or operand.sizes == shape:
            continue
        if flags.resize_outputs and not operand.is_read_write:
            operand.will_resize, operand.is_described = True, False
        elif not flags.is_reduction:
            raise RuntimeError(
                f"output with shape {list(operand.sizes)} doesn't match the broadcast shape "
                f"{list(shape)}"
            )


def _take_types(operands: list[Operand], compute: DType, result: DType, makes_copies: bool) -> None:
    """Settle the dtype of every operand by a rule of the operator's own.

    makes_copies   inputs of another dtype are cast before the loop; a device casts as it loads

    Raises   RuntimeError   the result cannot be cast to an output's dtype
    """
    for operand in operands:
        if operand.tensor is None:
            operand.dtype = result
        elif operand.is_output:
            check_cast(result, operand.dtype)
        elif makes_copies and operand.dtype is not compute:
            operand.strides = copied_strides(operand.sizes, operand.strides)
            operand.is_copy, operand.dtype = True, compute


def _fast_set_up(it: TensorIterator, all_same_shape: bool, flags: Flags) -> bool:
    """Make everything one-dimensional where all operands lie alike; False where they do not.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::fast_set_up
    """
    if flags.is_reduction or not all_same_shape:
        return False
    described = [(o.sizes, o.strides) for o in it.operands if o.is_described]
    strides = shared_strides(it.broadcast, described, linear=flags.enforce_linear_iteration)
    if strides is None:
        return False
    for operand in it.operands:
        if not operand.is_described:
            operand.sizes, operand.strides = it.broadcast, strides
    if it.shape:
        it.shape = [it.numel]
    for operand in it.operands:
        operand.stride_bytes = [operand.dtype.itemsize] if it.shape else []
    return True


def _compute_strides(it: TensorIterator) -> None:
    """Bytes per step along the broadcast shape, still in the caller's order of dimensions."""
    for operand in it.operands:
        if operand.is_described:
            steps = broadcast_strides(operand.sizes, operand.strides, it.broadcast)
            operand.stride_bytes = [step * operand.dtype.itemsize for step in steps]


def _reorder(it: TensorIterator, flags: Flags) -> None:
    """Put the dimension with the smallest steps first.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::reorder_dimensions
    """
    if flags.enforce_linear_iteration:
        it.perm = list(range(len(it.shape) - 1, -1, -1))
    else:
        known = [operand.stride_bytes for operand in it.operands if operand.is_described]
        outputs = len(it.outputs) if flags.is_reduction else 0
        it.perm = iteration_order(it.broadcast, known, reduced_outputs=outputs)
    it.shape = [it.shape[dim] for dim in it.perm]
    for operand in it.operands:
        if operand.is_described:
            operand.stride_bytes = [operand.stride_bytes[dim] for dim in it.perm]


def _describe_outputs(it: TensorIterator) -> None:
    """New outputs are packed in the order of iteration, so that writing walks memory once.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::allocate_or_resize_outputs
    """
    for operand in it.outputs:
        if operand.is_described:
            continue
        step = operand.dtype.itemsize
        for size in it.shape:
            operand.stride_bytes.append(step)
            step *= size
        operand.sizes, operand.strides = it.broadcast, packed_strides(it.broadcast, it.perm)


def _coalesce(it: TensorIterator) -> None:
    """Merge neighbouring dimensions that all operands walk as one.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::coalesce_dimensions
    """
    if len(it.shape) < 2:
        return
    shape = [it.shape[0]]
    strides = [[operand.stride_bytes[0]] for operand in it.operands]
    for dim in range(1, len(it.shape)):
        size = it.shape[dim]
        steps = [operand.stride_bytes[dim] for operand in it.operands]
        walked_as_one = all(
            shape[-1] * kept[-1] == step for kept, step in zip(strides, steps, strict=True)
        )
        if shape[-1] == 1 or size == 1 or walked_as_one:
            if shape[-1] == 1:
                for kept, step in zip(strides, steps, strict=True):
                    kept[-1] = step
            shape[-1] *= size
        else:
            shape.append(size)
            for kept, step in zip(strides, steps, strict=True):
                kept.append(step)
    it.shape = shape
    for operand, kept in zip(it.operands, strides, strict=True):
        operand.stride_bytes = kept
