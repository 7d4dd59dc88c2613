"""Element-wise operators: PyTorch's broadcasting, promotion, strides and overlap rules around a
loop of NumPy's.

    @pointwise("exp(Tensor self) -> Tensor", FLOAT, inplace=True, out="out")
    def exp(x: Array) -> Array:
        return np.exp(x)

The function gets the values of every Tensor argument, broadcastable and in the element type of the
computation (float32 for two-byte floats), and the other arguments as they are. From its schema come
the in-place operator `exp_`, which writes into its first argument, and `exp.out`.

Source   aten/src/ATen/native/BinaryOps.cpp, UnaryOps.cpp, PointwiseOps.cpp
Differs  on the host every loop is NumPy's, so speed says nothing about PyTorch; on a device the
         kernels are those of `labkit.ops.cuda.elementwise`
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import promotion, tensor_impl
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import decode, encode
from labkit.core.memory_format import Ints, contiguous_strides
from labkit.core.memory_overlap import assert_no_internal_overlap, assert_no_partial_overlap
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl, from_array
from labkit.dispatch.schema import Schema
from labkit.dispatch.schema_parser import parse_schema
from labkit.ops import copy
from labkit.ops.cuda import elementwise
from labkit.ops.iteration_order import output_strides
from labkit.ops.registration import kernel
from labkit.ops.resize import resize_output

Array = NDArray[Any]
Loop = Callable[..., Any]
Rule = Callable[["Pointwise", Sequence[TensorImpl], dict[str, Any]], tuple[DType, DType]]
"""(operator, tensors, other arguments) -> the element types of the computation and of the result.

Raises   RuntimeError   the operator does not take these types
"""

# Overflow, 0/0 and the like are answers here, as in PyTorch; asking NumPy not to speak of them at
# every call would cost more than the arithmetic of a small tensor.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"labkit\.ops\.")


def wrapped_number(number: complex | bool) -> TensorImpl:
    """A Python number as a 0-dim tensor that does not widen the type of others.

    Source   torch/csrc/utils/python_arg_parser.cpp  PythonArgs::tensor_slow
    """
    dtype = promotion.dtype_of_number(number)
    if dtype is dtypes.int64 and -(1 << 63) <= number < 1 << 63:  # type: ignore[operator]
        impl = from_array(np.array(number, np.int64), dtype, (), ())
    elif dtype is dtypes.float64 or dtype is dtypes.bool_:
        impl = from_array(np.array(number), dtype, (), ())
    else:
        impl = tensor_impl.empty((), dtype)
        copy.store(impl, copy.scalar_raw(number, dtype))
    impl.is_wrapped_number = True
    return impl


@dataclass(eq=False)
class Pointwise:
    """One element-wise operator: its schema, its rule of types, and its loop.

    fast   a NumPy function that gives the same answer as `loop` for dense operands of one native
           type, and raises nothing; None when there is none
    """

    schema: Schema
    rule: Rule
    loop: Loop
    fast: Loop | None = None
    base: str = ""
    tensors: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        arguments = self.schema.arguments
        self.base = self.schema.name.partition("::")[2]
        self.tensors = tuple([i for i, each in enumerate(arguments) if _is_tensor(each.type)])

    # -- calling ----------------------------------------------------------------------------

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """All arguments in the schema's order, and the tensors among them."""
        values = self.schema.stack(tuple(args), kwargs)
        return values, [values[i] for i in self.tensors if values[i] is not None]

    def types(self, values: Sequence[Any], operands: Sequence[TensorImpl]) -> tuple[DType, DType]:
        """The element types of the computation and of the result."""
        named = {
            argument.name: value
            for i, (argument, value) in enumerate(zip(self.schema.arguments, values, strict=True))
            if i not in self.tensors
        }
        return self.rule(self, operands, named)

    def functional(self, *args: Any, **kwargs: Any) -> TensorImpl:
        """A new tensor of the broadcast shape, in the promoted element type.

        Raises   RuntimeError   shapes that do not broadcast, types that have no common one, or
                                tensors on several devices
        """
        values, operands = self.split(args, kwargs)
        device = common_device(operands)
        compute, dtype = self.types(values, operands)
        shape = broadcast_shapes(*[operand.sizes for operand in operands])
        strides = self._strides(shape, operands, compute, device)
        if device is not CPU:
            result = tensor_impl.empty_strided(shape, strides, dtype, device)
            self._run(values, compute, dtype, result)
            return result
        arrays, answer = self._answer(values, compute)
        raw = encode(answer, dtype)
        fresh = raw.flags.owndata and not any(raw is array for array in arrays)
        if fresh and raw.shape == shape and raw.flags.c_contiguous:
            packed = contiguous_strides(shape)
            if strides == packed:
                return from_array(raw, dtype, shape, packed)
        result = tensor_impl.empty_strided(shape, strides, dtype, device)
        copy.store(result, raw)
        return result

    def in_place(self, *args: Any, **kwargs: Any) -> TensorImpl:
        """The result written into the first tensor; its shape and element type stay.

        Raises   RuntimeError   as `functional`; or the result does not fit `self`, or `self` shows
                                an element twice, or shares part of its memory with another
        """
        values, operands = self.split(args, kwargs)
        self_ = operands[0]
        common_device(operands, out=self_)
        assert_no_internal_overlap(self_.sizes, self_.strides)
        for other in operands[1:]:
            if other is not self_:
                assert_no_partial_overlap(self_, other)
        shape = broadcast_shapes(*[operand.sizes for operand in operands])
        if shape != self_.sizes:
            raise RuntimeError(
                f"output with shape {list(self_.sizes)} doesn't match the broadcast shape "
                f"{list(shape)}"
            )
        compute, dtype = self.types(values, operands)
        _check_cast(dtype, self_.dtype)
        self._run(values, compute, dtype, self_)
        self_.bump_version()
        return self_

    def into(self, *args: Any, out: TensorImpl, **kwargs: Any) -> TensorImpl:
        """The result written into `out`, which is resized when it has another shape.

        Raises   RuntimeError   as `in_place`
        """
        values, operands = self.split(args, kwargs)
        device = common_device(operands, out=out)
        compute, dtype = self.types(values, operands)
        _check_cast(dtype, out.dtype)
        shape = broadcast_shapes(*[operand.sizes for operand in operands])
        if out.sizes == shape:
            assert_no_internal_overlap(out.sizes, out.strides)
        for other in operands:
            if other is not out:
                assert_no_partial_overlap(out, other)
        if out.sizes != shape:
            strides = self._strides(shape, operands, compute, device)
            resize_output(out, shape, strides)
        self._run(values, compute, dtype, out)
        out.bump_version()
        return out

    def _strides(
        self, shape: Ints, operands: Sequence[TensorImpl], compute: DType, device: Device
    ) -> Ints:
        """The strides of a new result."""
        geometry = []
        for each in operands:
            strides = each.strides
            if device is CPU and each.dtype is not compute:  # a copy is laid out first; a device
                strides = copy.strides_like(each)  # kernel casts as it loads
            geometry.append((each.sizes, strides))
        return output_strides(shape, geometry)

    def _run(self, values: list[Any], compute: DType, dtype: DType, out: TensorImpl) -> None:
        """Fill `out`: with a device kernel where it is on a device that has one, else on the host.

        compute, dtype   of the computation, and of what it answers before `out` is written
        """
        if out.device.type != "cpu":
            arguments = [
                (argument.name, value)
                for argument, value in zip(self.schema.arguments, values, strict=True)
            ]
            if elementwise.launch(self.base, compute, dtype, out, arguments):
                return
        _, answer = self._answer(values, compute)
        copy.store(out, copy.convert(encode(answer, dtype), dtype, out.dtype))

    def _answer(self, values: list[Any], compute: DType) -> tuple[list[Array], Array]:
        """What the loop makes of the operands' numbers; those first."""
        arguments = list(values)
        arrays = []
        for i in self.tensors:
            if values[i] is not None:
                arguments[i] = numbers(values[i], compute)
                arrays.append(arguments[i])
        return arrays, np.asarray(self.loop(*arguments))


def pointwise(
    schema: str,
    rule: Rule,
    *,
    inplace: bool | str = True,
    out: str | None = "out",
    fast: Loop | None = None,
    variants: str = "function, method",
) -> Callable[[Loop], Loop]:
    """The decorated loop is an operator, on the host and on devices.

    schema   of the functional operator; it decides everything else
    rule     ARITHMETIC, FLOAT, COMPARISON ... below, or one of the operator's own
    inplace  also define `name_`, with the overload's name, or with this one
    out      the overload that takes `out=`; None for no such operator
    fast     see `Pointwise`

    The loop gets one value per schema argument, in order; it returns the answer, of the result's
    kind of number.
    """

    def register(loop: Loop) -> Loop:
        op = Pointwise(parse_schema(f"aten::{schema}"), rule, loop, fast)
        name = schema.partition("(")[0]
        base = name.partition(".")[0]
        run = op.functional if fast is None else _with_shortcut(op, fast)
        kernel(schema, variants=variants)(run)
        _on_devices(name, op.functional)
        OPERATORS[name] = op
        if inplace:
            called = (
                f"{base}_.{inplace}" if isinstance(inplace, str) else name.replace(base, f"{base}_")
            )
            written = schema.replace(name, called, 1).replace("Tensor self", "Tensor(a!) self")
            text = written.replace("-> Tensor", "-> Tensor(a!)")
            kernel(text, variants="method" if "method" in variants else "")(op.in_place)
            _on_devices(text.partition("(")[0], op.in_place)
        if out is not None:
            kernel(_out_schema(schema, base, out), variants="function" if variants else "")(op.into)
            _on_devices(f"{base}.{out}", op.into)
        return loop

    return register


def _on_devices(name: str, function: Loop) -> None:
    for key in ("CUDA", "PrivateUse1"):
        kernel(name, key)(function)


OPERATORS: dict[str, Pointwise] = {}
"""Every element-wise operator by name and overload, "add.Tensor"."""


def _out_schema(schema: str, base: str, overload: str) -> str:
    arguments = schema.partition("(")[2].rpartition(") ->")[0]
    separator = ", " if ", *," in f", {arguments}" else ", *, "
    return f"{base}.{overload}({arguments}{separator}Tensor(a!) out) -> Tensor(a!)"


def _with_shortcut(op: Pointwise, fast: Loop) -> Loop:
    """The operator, with a short way for host operands of one type and shape without gaps."""
    slow = op.functional
    if len(op.tensors) == 1:

        def unary(x: TensorImpl, *rest: Any, **others: Any) -> TensorImpl:
            sizes = x.sizes
            if not rest and not others and sizes and x.dtype in _FAST:
                values = x.raw()
                if values.flags.c_contiguous:
                    return from_array(fast(values), x.dtype, sizes, contiguous_strides(sizes))
            return slow(x, *rest, **others)

        return unary

    def binary(x: TensorImpl, y: TensorImpl, *rest: Any, **others: Any) -> TensorImpl:
        dtype, sizes = x.dtype, x.sizes
        if (
            dtype is y.dtype
            and sizes == y.sizes
            and sizes
            and dtype in _FAST
            and not rest
            and (not others or others == _PLAIN)
        ):
            a, b = x.raw(), y.raw()
            if a.flags.c_contiguous and b.flags.c_contiguous:
                return from_array(fast(a, b), dtype, sizes, contiguous_strides(sizes))
        return slow(x, y, *rest, **others)

    return binary


_PLAIN = {"alpha": 1}
_FAST = frozenset({dtypes.float32, dtypes.float64})


def _is_tensor(kind: Any) -> bool:
    return bool(kind.is_tensor_like)


def numbers(operand: TensorImpl, compute: DType) -> Array:
    """The operand's values in the element type of a computation; two-byte floats as float32."""
    raw = copy.on_host(operand).raw()
    values = decode(copy.convert(raw, operand.dtype, compute), compute)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _check_cast(result: DType, into: DType) -> None:
    if not promotion.can_cast(result, into):
        raise RuntimeError(
            f"result type {result.name} can't be cast to the desired output type {into.name}"
        )


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


# -- rules of element types ---------------------------------------------------------------------


def not_implemented(op: Pointwise, dtype: DType) -> RuntimeError:
    """The error of an operator that has no loop for an element type."""
    return RuntimeError(f"{op.base!r} not implemented for {dtype}")


def common_dtype(op: Pointwise, operands: Sequence[TensorImpl]) -> DType:
    """The promoted type of all operands; no operator computes in a one-byte float."""
    first = operands[0]
    common = first.dtype if len(operands) == 1 else promotion.result_type(*operands)
    if common.is_float8:
        raise not_implemented(op, common)
    return common


def ARITHMETIC(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Compute and answer in the promoted type."""
    common = common_dtype(op, operands)
    return common, common


def FLOAT(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Likewise, whole numbers in the default floating type."""
    common = common_dtype(op, operands)
    if not (common.is_floating_point or common.is_complex):
        common = promotion.get_default_dtype()
    return common, common


def COMPARISON(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Compute in the promoted type, answer in bool."""
    return common_dtype(op, operands), dtypes.bool_


def REAL_COMPARISON(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Likewise; complex numbers have no order."""
    common = common_dtype(op, operands)
    if common.is_complex:
        raise not_implemented(op, common)
    return common, dtypes.bool_


def WHOLE(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Whole numbers and bool only."""
    common = common_dtype(op, operands)
    if common.is_floating_point or common.is_complex:
        raise not_implemented(op, common)
    return common, common


def MAGNITUDE(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    """Compute in the type, answer in its real type."""
    common = common_dtype(op, operands)
    return common, dtypes.to_real(common)
