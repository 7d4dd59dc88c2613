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
from labkit.core.device import CPU
from labkit.core.dtype import DType
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl, from_array
from labkit.dispatch.library import SPEAK_FOR_OTHERS
from labkit.dispatch.schema import Schema
from labkit.dispatch.schema_parser import parse_schema
from labkit.ops.cuda import elementwise
from labkit.ops.iterator.tensor_iterator import build
from labkit.ops.pointwise.pointwise_shortcut import with_shortcut
from labkit.ops.registration import DEVICES, kernel
from labkit.ops.tensors import copy
from labkit.ops.tensors.resize import resize_output

Array = NDArray[Any]
Loop = Callable[..., Any]
Types = tuple[DType, DType]
"""The element types of a computation and of its result."""
Rule = Callable[["Pointwise", Sequence[TensorImpl], dict[str, Any]], Types]
"""(operator, tensors, other arguments) -> the types; `labkit.ops.pointwise.dtype_rules` has them.

Raises   RuntimeError          the operator refuses these types
         NotImplementedError   it has no loop for them
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

    keeps_dtype   the result is of the operand's type, or bool, and an output of another is refused;
                  a real result of a complex operand may be cast
    """

    schema: Schema
    rule: Rule
    loop: Loop
    keeps_dtype: bool = False

    def __post_init__(self) -> None:
        arguments = self.schema.arguments
        self.base = self.schema.name.partition("::")[2]
        self.names = [each.name for each in arguments]
        self.tensors = [i for i, each in enumerate(arguments) if each.type.is_tensor_like]
        self.others = [i for i in range(len(arguments)) if i not in self.tensors]

    def functional(self, *args: Any, **kwargs: Any) -> TensorImpl:
        """A new tensor of the broadcast shape, in the promoted element type.

        Raises   RuntimeError   shapes that do not broadcast, types that have no common one, or
                                tensors on several devices
        """
        return self._call(args, kwargs)

    def in_place(self, *args: Any, **kwargs: Any) -> TensorImpl:
        """The result written into the first tensor; its shape and element type stay.

        Raises   RuntimeError   as `functional`; or the result does not fit `self`, or `self` shows
                                an element twice, or shares part of its memory with another
        """
        return self._call(args, kwargs, in_place=True)

    def into(self, *args: Any, out: TensorImpl, **kwargs: Any) -> TensorImpl:
        """The result written into `out`, which is resized when it has another shape.

        Raises   RuntimeError   as `in_place`
        """
        return self._call(args, kwargs, out)

    def filling(self, made: TensorImpl, *args: Any, **kwargs: Any) -> TensorImpl:
        """The result in a tensor that was made for it: as if it had never held anything else.

        Raises   RuntimeError   as `functional`
        """
        self.into(*args, out=made, **kwargs)
        made.version_counter.version = 0
        return made

    def _call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: TensorImpl | None = None,
        in_place: bool = False,
    ) -> TensorImpl:
        """The whole call: types, iterator, output, and the loop on the device or on the host.

        On a device it runs over the iterator's operands; on the host it takes the values whole.
        """
        values = self.schema.stack(args, kwargs)
        operands = [values[i] for i in self.tensors if values[i] is not None]
        if in_place:
            out = operands[0]
        others = {self.names[i]: values[i] for i in self.others}
        try:
            compute, answer = self.rule(self, operands, others)
        except NotImplementedError:
            broadcast_shapes(*[each.sizes for each in operands])  # which is told first
            raise
        fixed = self.keeps_dtype and answer in (operands[0].dtype, dtypes.bool_)
        if out is not None and fixed and out.dtype is not answer:
            raise RuntimeError(f"Found dtype {out.dtype.name} but expected {answer.name}")
        it = build(operands, (out,), types=(compute, answer))
        made = it.operands[0]
        if made.tensor is None:
            made.tensor = tensor_impl.empty_strided(made.sizes, made.strides, made.dtype, it.device)
        elif made.will_resize:
            resize_output(made.tensor, made.sizes, made.strides)
        arguments = list(zip(self.names, values, strict=True))
        if it.device is CPU or not elementwise.launch(self.base, it, compute, answer, arguments):
            for i in self.tensors:
                if values[i] is not None:
                    values[i] = copy.values_as(values[i], compute)
            copy.write(made.tensor, self.loop(*values), rounded_to=answer)
        if out is not None:
            out.bump_version()
        return made.tensor


def pointwise(
    schema: str,
    rule: Rule,
    *,
    inplace: bool | str = True,
    out: str | None = "out",
    keeps_dtype: bool = False,
    fast: Loop | None = None,
    variants: str = "function, method",
) -> Callable[[Loop], Loop]:
    """The decorated loop is an operator, on the host and on devices.

    schema   of the functional operator; it decides everything else
    rule     ARITHMETIC, FLOAT, COMPARISON ... of `dtype_rules`, or one of the operator's own
    inplace  also define `name_`, with the overload's name, or with this one
    out      the overload that takes `out=`; None for no such operator
    keeps_dtype   see `Pointwise`
    fast     a NumPy function that gives the same answer for dense operands of one native type, and
             raises nothing; None when there is none (`labkit.ops.pointwise.pointwise_shortcut`)

    The loop gets one value per schema argument, in order; it returns the answer, of the result's
    kind of number.
    """

    def register(loop: Loop) -> Loop:
        op = Pointwise(parse_schema(f"aten::{schema}", known_types=True), rule, loop, keeps_dtype)
        name = schema.partition("(")[0]
        base = name.partition(".")[0]
        run = op.functional
        if fast is not None:
            run = with_shortcut(op.functional, fast, len(op.tensors))
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


ON_DEVICES: dict[str, Loop] = {}
"""What serves device tensors, by the operator's full name: "add_.Tensor", "add.out"."""


def _on_devices(name: str, function: Loop) -> None:
    ON_DEVICES[name] = function
    for key in DEVICES:
        kernel(name, key)(function)


SPEAK_FOR_OTHERS.add(__file__)
OPERATORS: dict[str, Pointwise] = {}
"""Every element-wise operator by name and overload, "add.Tensor"."""


def _out_schema(schema: str, base: str, overload: str) -> str:
    arguments = schema.partition("(")[2].rpartition(") ->")[0]
    separator = ", " if ", *," in f", {arguments}" else ", *, "
    return f"{base}.{overload}({arguments}{separator}Tensor(a!) out) -> Tensor(a!)"


def replace_kernels(name: str, function: Loop) -> None:
    """The function is the kernel of a defined operator, on the host and on devices."""
    for key in ("CPU", *DEVICES):
        kernel(name, key)(function)


def define_in_place(schema: str, name: str) -> None:
    """The operator of that name, writing into its first tensor, under a schema of its own.

    For those whose overloads in place are not named like the functional ones.
    """
    kernel(schema, variants="method")(OPERATORS[name].in_place)
    for key in DEVICES:
        kernel(schema.partition("(")[0], key)(OPERATORS[name].in_place)
